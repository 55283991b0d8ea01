"""``python -m webhook`` is ``gpu-topology``."""

from webhook.cli.main import main

if __name__ == "__main__":
    main()
