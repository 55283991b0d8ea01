"""``make gpu`` tries on a machine with GPUs what this project claims, and packs what was seen."""
