"""The traffic of GPUs in the last minutes and hours: values, their written form, and judgements of them."""
