"""A program run on a pseudo-terminal, and what stands on its screen in the end."""

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence

from toy_training import environment

_TOKENS = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class OnTerminal:
    """A running program whose stderr is a terminal."""

    def __init__(self, command: Sequence[str], *, columns: int = 100, lines: int = 40) -> None:
        self.columns = columns
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        unset = ("COLUMNS", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
        plain = {key: value for key, value in environment().items() if key not in unset}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=slave,
            env=plain | {"TERM": "xterm"},
        )
        os.close(slave)
        self.written = ""  # to the terminal so far
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # reads split characters

    def read_until(self, text: str) -> None:
        """Read what the program writes until `text` comes."""
        while text not in self.written:
            assert self._read(), f"{text!r} never came:\n{self.written}"

    def finish(self) -> int:
        """Read to the end; return the exit status."""
        while self._read():
            pass
        os.close(self._master)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == b""
        self.process.stdout.close()
        return self.process.wait()

    def hang_up(self) -> int:
        """Close the terminal under the program; return its exit status."""
        os.close(self._master)
        self.process.communicate()
        return self.process.returncode

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # how Linux says that nobody has the other side open any more
            return False
        self.written += self._decoder.decode(data)
        return bool(data)

    @property
    def screen(self) -> list[str]:
        """The lines that a terminal would show, down to the last one that is not empty."""
        lines: list[str] = [""]
        row = column = 0
        for argument, command, control, text in _TOKENS.findall(self.written):
            if command == "A":
                row = max(0, row - int(argument or 1))
            elif command == "K":
                assert argument == "2"
                lines[row] = ""
            elif control == "\r":
                column = 0
            elif control == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            else:
                assert command in ("", "m", "h", "l"), command
                for character in text:
                    if column == self.columns:
                        row, column = row + 1, 0
                        lines += [""] * (row + 1 - len(lines))
                    line = lines[row].ljust(column)
                    lines[row] = line[:column] + character + line[column + 1 :]
                    column += 1
        return "\n".join(line.rstrip() for line in lines).rstrip().split("\n")
