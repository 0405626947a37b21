"""`python -m nmt`, the form that torchrun starts: torchrun -m nmt train ..."""

from nmt.cli import main

if __name__ == "__main__":
    main()
