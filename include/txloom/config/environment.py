"""Values from the environment: ${NAME} and ${NAME:-default} inside a declaration's texts.

A value may be a secret: it enters the model and never a message, which names the variable instead.
"""

import re
from collections.abc import Mapping

from txloom.config.problems import Unfit

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}|\$\{[^}]*\}?")
EXPECTED = "${NAME} or ${NAME:-default}"


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with its references replaced; an empty variable counts as unset where there is a default.

    >>> expand("${INBOX:-inbox}/of/${TEAM} costs $${5}", {"TEAM": "sales"})
    'inbox/of/sales costs ${5}'
    """

    def value(reference: re.Match[str]) -> str:
        name, default = reference.groups()
        if reference[0] == "$${":
            return "${"
        if name is None:
            raise Unfit(EXPECTED, "A text that holds ${ itself is written with $${.")
        if default is None and name not in environment:
            raise Unfit(f"the environment to set {name}", f"Set it, or give a default: ${{{name}:-default}}.")
        return environment.get(name) or default or ""

    return _REFERENCE.sub(value, text)
