import pytest

from ragbench import build_validator
from ragbench.errors import ConfigError
from ragbench.validators.validator import VALIDATORS, Validator


def test_a_validator_is_built_from_its_name_and_settings() -> None:
    built = build_validator({"name": "lexical", "present": 0.7})
    assert isinstance(built, Validator)
    assert built.identity.endswith("0.7")
    assert build_validator(built) is built


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("lexicla", "Did you mean 'lexical'"),
        ({"name": "lexical", "presence": 1}, "unknown setting 'presence'"),
        ({"present": 0.5}, "needs a 'name'"),
        (3, "a name or a mapping"),
    ],
)
def test_what_cannot_be_built_is_refused(given: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        build_validator(given)


def test_every_builtin_name_loads() -> None:
    for name in VALIDATORS.builtin:
        assert isinstance(VALIDATORS.load(name), type)
