import sys

from torch_conv_cli import main

if __name__ == "__main__":
    sys.exit(main())
