"""
Writes cronhpa/core/schedules/holiday_codes.py anew, for `make format` to format:

    PYTHONPATH=tests python -m core.schedules.holiday_codes
"""

from __future__ import annotations

from pathlib import Path

import holidays
from holidays.registry import EntityLoader

FILE = Path(__file__).parents[3] / "cronhpa" / "core" / "scheduled" / "holiday_codes.py"
HEAD = '''"""
The countries whose holidays the `holidays` library knows, and the parts of those that have such of their own.

Written from the library by tests/core/schedules/holiday_codes.py; a test holds the two against each other. So a code is
judged in microseconds: the library takes a third of a second to be imported, and loads each country it is asked for.
"""

'''


def known() -> tuple[str, dict[str, str]]:
    """What the library that is installed knows."""
    countries = sorted(EntityLoader.get_country_codes(include_aliases=False))
    parts = {country: ",".join(holidays.country_holidays(country).subdivisions) for country in countries}
    return ",".join(countries), {country: codes for country, codes in parts.items() if codes}


def text() -> str:
    """The file, but for `ruff format`."""
    countries, parts = known()
    lines = [f"COUNTRIES = {_quoted(countries)}", "PARTS = {"]
    lines += [f'    "{country}": {_quoted(codes)},' for country, codes in parts.items()]
    return HEAD + "\n".join([*lines, "}"]) + "\n"


def _quoted(codes: str) -> str:
    """The codes as one text, in lines: a line each would make 900 of them."""
    lines = [""]
    for code in codes.split(","):
        if len(lines[-1]) + len(code) > 100:
            lines.append("")
        lines[-1] += f"{code},"
    lines[-1] = lines[-1].removesuffix(",")
    if len(lines) == 1:
        return f'"{codes}"'
    inner = "\n".join(f'        "{line}"' for line in lines)
    return f"(\n{inner}\n    )"


if __name__ == "__main__":
    FILE.write_text(text())
