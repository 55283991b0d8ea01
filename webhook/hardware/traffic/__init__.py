"""The traffic of GPUs in the last minutes: values, their written form, and judgements of them."""
