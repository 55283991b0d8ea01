"""``python -m webhook`` is ``gpu-topology``."""

from webhook.entry import main

if __name__ == "__main__":
    main()
