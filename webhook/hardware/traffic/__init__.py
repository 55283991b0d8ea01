"""What GPUs moved in the last minutes and hours: values, their written form, and what follows from them."""
