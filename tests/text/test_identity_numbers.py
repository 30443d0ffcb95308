"""Numbers with a checksum: the published examples, and the same with one wrong digit."""

from __future__ import annotations

import pytest

from kogniterm.text.secret_patterns import identity_numbers

EXAMPLES = {
    "4111 1111 1111 1111": "payment_card",
    "5500-0000-0000-0004": "payment_card",
    "378282246310005": "payment_card",
    "3782 822463 10005": "payment_card",
    "GB29 NWBK 6016 1331 9268 19": "iban",
    "ES9121000418450200051332": "iban",
    "es91 2100 0418 4502 0005 1332": "iban",
    "12345678Z": "dni",
    "12.345.678-Z": "dni",
    "X1234567L": "nie",
    "529.982.247-25": "cpf",
    "12.345.678-5": "rut",
    "20-12345678-6": "cuit",
    "HEGG560427MVZRRL04": "curp",
    "RSSMRA85T10A562S": "codice_fiscale",
    "2 55 08 14 168 025 38": "nir",
}


@pytest.mark.parametrize(("number", "kind"), EXAMPLES.items())
def test_numbers_whose_check_holds_are_found_and_others_are_not(number: str, kind: str) -> None:
    for text in (number, f"es {number}, sí", f'"{number}"', f"n={number} 04/29"):
        assert [(text[a:b], one) for a, b, one in identity_numbers(text)] == [(number, kind)]
    place = next(at for at in reversed(range(len(number))) if number[at].isdigit())
    wrong = f"{number[:place]}{(int(number[place]) + 1) % 10}{number[place + 1 :]}"
    assert list(identity_numbers(wrong)) == []


def test_a_social_security_number_is_one_that_can_be_issued() -> None:
    assert [one for _, _, one in identity_numbers("219-09-9999")] == ["social_security_number"]
    for never in ("000-12-3456", "666-12-3456", "912-12-3456", "219-00-9999", "219-09-0000"):
        assert list(identity_numbers(never)) == []


@pytest.mark.parametrize(
    "text",
    [
        "0.4111111111111111",
        "4111 1111 1111 1111 1111",
        "id-4111111111111111-x",
        "a4111111111111111",
    ],
)
def test_a_part_of_something_longer_is_no_card(text: str) -> None:
    assert list(identity_numbers(text)) == []
