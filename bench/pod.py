"""The webhook as a pod of a cluster, with its service account in the directory of the first argument."""

import sys
from pathlib import Path

from webhook.cluster.api import service_account
from webhook.entry import main

if __name__ == "__main__":
    service_account.DIRECTORY = Path(sys.argv.pop(1))
    main()
