"""Writes ``ragbench/text/units.toml``: units with their dimension and size, from pint's registry.

Run once, and again where a unit is added below:

    pip install pint && python .ci/generate_units.py

The package itself does not depend on pint: a table of a few hundred words is read faster than a
registry is built, and pint's own parser reads "2 pm" as picometres.
"""

from __future__ import annotations

from pathlib import Path

import pint

TARGET = Path(__file__).resolve().parents[1] / "ragbench" / "text" / "units.toml"

# pint's name, then the words that people write beside pint's name; a plural needs no entry.
PLAIN = """
minute min mins
hour h hr hrs
day
week wk wks
fortnight
month
year yr yrs
century centuries
inch in. inches
foot ft feet
yard yd yds
mile mi
nautical_mile nmi
acre
hectare ha
gallon gal
pint pt
fluid_ounce floz
ounce oz
pound lb lbs
stone
tonne metric_ton
degree deg °
degree_Celsius °C celsius
degree_Fahrenheit °F fahrenheit
kelvin K
atmosphere atm
mmHg
psi
horsepower hp
british_thermal_unit btu
mph
knot kn kt
rpm
percent % pct
permille ‰
ppm
"""
PREFIXED = """
second s sec secs: nano micro milli
meter m metre: nano micro milli centi deci kilo
gram g: nano micro milli kilo
liter l litre: micro milli centi deci hecto
watt W: micro milli kilo mega giga tera
watt_hour Wh: kilo mega giga tera
joule J: milli kilo mega giga
calorie cal: kilo
electron_volt eV: kilo mega giga tera
volt V: micro milli kilo mega
ampere A amp: micro milli kilo
ohm Ω: milli kilo mega
farad F: nano micro milli
henry H: micro milli
coulomb C: micro milli
ampere_hour Ah: milli
hertz Hz: milli kilo mega giga tera
newton N: milli kilo mega
pascal Pa: hecto kilo mega giga
bar: micro milli
mole mol: nano micro milli kilo
byte B: kilo mega giga tera peta
bit b: kilo mega giga tera
becquerel Bq: kilo mega giga
gray Gy: micro milli
sievert Sv: micro milli
tesla T: micro milli
lumen lm: kilo
lux lx: kilo
candela cd:
"""
PREFIXES = {
    "nano": "n",
    "micro": "µ",
    "milli": "m",
    "centi": "c",
    "deci": "d",
    "hecto": "h",
    "kilo": "k",
    "mega": "M",
    "giga": "G",
    "tera": "T",
    "peta": "P",
}
# Of two units with one symbol the word is no unit: it is left to the reader.
AMBIGUOUS = {"pt", "b", "deg", "inchs", "foots", "feets", "centurys"}
NAMES = {
    "amountofsubstance": "substance",
    "mass*length^2/time^2/current^2": "inductance",
    "mass*length^2/time^3/current": "voltage",
    "mass*length^2/time^3/current^2": "resistance",
    "mass/time^2/current": "magnetic field",
}
"""What a dimension of several base units is called; the others keep their formula."""


def main() -> None:
    registry = pint.UnitRegistry()
    rows: dict[str, dict[str, list[str]]] = {}
    seen: set[str] = set()
    for line in PLAIN.split("\n"):
        if line:
            name, *words = line.split()
            _add(registry, rows, seen, name, [name.replace("_", " "), *words])
    for line in PREFIXED.split("\n"):
        if not line:
            continue
        spelled, prefixes = line.split(":")
        name, *words = spelled.split()
        _add(registry, rows, seen, name, [name.replace("_", " "), *words])
        symbol, *longer = words or [name]
        names = [name.replace("_", " "), *[word for word in longer if word.endswith("re")]]
        for prefix in prefixes.split():
            letter = PREFIXES[prefix]
            spellings = [prefix + word for word in names] + [letter + symbol]
            if letter == "µ":
                spellings += ["u" + symbol, "μ" + symbol]
                if name == "gram":
                    spellings.append("mcg")
            _add(registry, rows, seen, prefix + name, spellings)
    lines = [
        "# Units by dimension: the size in the base unit, behind a slash the zero of a scale",
        "# that has its own, and the words. Symbols keep their case.",
        "# Written by .ci/generate_units.py.",
        "",
    ]
    for dimension, words_by_size in sorted(rows.items()):
        lines.append(f'"{dimension}" = [')
        lines += [f"    '{size} {' | '.join(words)}'," for size, words in words_by_size.items()]
        lines.append("]")
    lines.append("")
    TARGET.write_text("\n".join(lines), encoding="utf-8")


def _add(
    registry: pint.UnitRegistry,
    rows: dict[str, dict[str, list[str]]],
    seen: set[str],
    name: str,
    spellings: list[str],
) -> None:
    """A unit with its words, of which those that another unit has already are left out."""
    unit = registry.Unit(name)
    zero = registry.Quantity(0, unit).to_base_units().magnitude
    one = registry.Quantity(1, unit).to_base_units().magnitude
    factor = float(f"{one - zero:.10g}")
    size = f"{factor:.10g}" if abs(zero) < 1e-9 else f"{factor:.10g}/{zero:.10g}"
    dimension = str(unit.dimensionality).replace("[", "").replace("]", "").replace(" ", "")
    dimension = dimension.replace("**", "^").removeprefix("1*").replace("^1", "")
    dimension = NAMES.get(dimension, dimension)
    if name.endswith(("bit", "byte")):
        dimension = "information"
    elif name.endswith(("becquerel", "gray", "sievert", "lumen", "lux")):
        dimension = next(
            end for end in ("becquerel", "gray", "sievert", "lumen", "lux") if name.endswith(end)
        )
    elif name in ("percent", "permille", "ppm"):
        dimension = "share"
    elif name == "degree":
        dimension = "angle"
    elif name.endswith("hertz"):
        dimension = "frequency"
    words: list[str] = []
    for spelling in spellings:
        plural = (
            []
            if len(spelling) < 3 or not spelling.islower() or spelling.endswith(("s", "z", "x"))
            else [spelling + "s"]
        )
        for word in [spelling, *plural]:
            if word not in seen and word not in AMBIGUOUS:
                seen.add(word)
                words.append(word)
    if words:
        rows.setdefault(dimension, {}).setdefault(size, []).extend(words)


if __name__ == "__main__":
    main()
