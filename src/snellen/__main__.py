"""`python -m snellen`, for where the script is not on the path."""

import sys

from snellen.cli import main

if __name__ == "__main__":
    sys.exit(main())
