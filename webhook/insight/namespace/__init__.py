"""What a namespace has opted into, and what it would take to change that: a plan, which is a value."""
