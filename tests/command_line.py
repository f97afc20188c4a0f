"""Commands run in this process, as a test wants them: options in, exit status out."""

from torch_conv import cli


def run(*arguments):
    """The exit status; argparse leaves by SystemExit."""
    try:
        return cli.main([str(a) for a in arguments])
    except SystemExit as leaving:
        return leaving.code


def refused(capsys, *arguments):
    """The one sentence of a command that ends with status 2."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.rstrip("\n")
