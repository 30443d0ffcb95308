"""Numbers of payment cards, bank accounts and identity documents.

Each is distinguished from an order number or a sum by its issuer's checksum: the check digit of a
card, the remainder of an account number, the letter of an identity card. A number without a
checksum counts only next to its own name (see `secret_patterns`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

Found = tuple[int, int, str]
"""The start and end of a number, and its kind."""

# Each begins with the class of its first character, so that the search skips to it, and looks
# back past it afterwards.
_DIGITS_FIRST = re.compile(
    r"[0-9](?<![\w.+/-].)(?:"
    r"(?P<payment_card>(?:(?<=[3-6])\d|(?<=2)[2-7])\d\d(?<!\d{4} \d{4})(?:"
    r"(?P<sign>[ -])(?:\d{4}(?P=sign)\d{4}(?P=sign)\d{4}(?! \d{4}\b)|\d{6}(?P=sign)\d{4,5})"
    r"|\d{10,15})(?![\w-]|\.\d))"
    r"|(?P<social_security_number>\d\d-\d\d-\d{4}(?![\w-]))"
    r"|(?P<cpf>\d\d\.\d{3}\.\d{3}-\d\d(?![\w-]))"
    r"|(?P<rut>\d?\.\d{3}\.\d{3}-[\dkK](?![\w-]))"
    r"|(?P<dni>\d{7}-?[A-Za-z](?![\w-])|\d?\.\d{3}\.\d{3}-?[A-Za-z](?![\w-]))"
    r"|(?P<cuit>(?:(?<=2)[0347]|(?<=3)[034])-\d{8}-\d(?![\w-]))"
    r"|(?P<nir>(?<=[12]) ?\d\d ?(?:0[1-9]|1[0-2]) ?\d[\dAB] ?\d{3} ?\d{3} ?\d\d(?![\w-]))"
    r")"
)
_LETTERS_FIRST = re.compile(
    r"[A-Za-z](?<![A-Za-z0-9_/+-].)(?:"
    r"(?P<iban>[A-Za-z]\d\d[ -]?[A-Za-z0-9]{4}[ -]?[A-Za-z0-9][A-Za-z0-9 -]{6,33})"
    r"|(?P<nie>(?<=[XYZxyz])-?\d{7}-?[A-Za-z](?![\w-]))"
    r"|(?P<curp>[A-Z]{3}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d(?![\w-]))"
    r"|(?P<codice_fiscale>[A-Z]{5}\d\d[ABCDEHLMPRST]\d\d[A-Z]\d{3}[A-Z](?![\w-]))"
    r")"
)
_IBAN_LENGTHS = dict(
    re.findall(
        r"([A-Z]{2})(\d\d)",
        "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BR29BY28CH21CR22CY28CZ24DE22DK18DO28EE20EG29ES24FI18"
        "FO18FR27GB22GE22GI23GL18GR27GT28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20"
        "LU20LV21MC27MD24ME22MK19MR27MT31MU30NL18NO15PK24PL28PS29PT25QA29RO24RS22SA24SC31SE24SI19"
        "SK24SM27ST25SV28TL23TN24TR26UA29VA22VG24XK20",
    )
)
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_ODD_PLACES = (
    *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18),
    *(20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
)


def identity_numbers(text: str) -> Iterator[Found]:
    """Yield the cards, accounts and identity numbers of `text` whose checksum holds."""
    for pattern in (_DIGITS_FIRST, _LETTERS_FIRST):
        for match in pattern.finditer(text):
            kind, start = match.lastgroup or "", match.start()
            length = _CHECKS[kind](match[0].upper())
            if length:
                yield start, start + length, kind


def _digits(text: str) -> str:
    return "".join(one for one in text if one.isdigit())


def luhn_holds(digits: str) -> bool:
    """Return whether the last digit is the check digit of ISO/IEC 7812."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def _card(text: str) -> int:
    """Return the length of `text` if it is a card number, else 0."""
    digits = _digits(text)
    sizes = (15,) if digits[:2] in ("34", "37") else (14,) if digits[:2] in _DINERS else (16, 19)
    fits = len(digits) in sizes and len(set(digits)) > 1
    return len(text) if fits and luhn_holds(digits) else 0


_DINERS = ("30", "36", "38", "39")


def _iban(text: str) -> int:
    wanted, at = int(_IBAN_LENGTHS.get(text[:2], 0)), 0
    account = ""
    for at, one in enumerate(text):  # noqa: B007  # where it ended is what is asked
        if one not in " -":
            account += one
            if len(account) == wanted:
                break
    else:
        return 0
    if text[at + 1 : at + 2].isalnum():
        return 0
    number = "".join(str(int(one, 36)) for one in account[4:] + account[:4])
    return at + 1 if int(number) % 97 == 1 else 0


def _dni(text: str) -> int:
    return len(text) if _DNI_LETTERS[int(_digits(text)) % 23] == text[-1] else 0


def _nie(text: str) -> int:
    number = int(f"{'XYZ'.index(text[0])}{_digits(text)}")
    return len(text) if _DNI_LETTERS[number % 23] == text[-1] else 0


def _social_security(text: str) -> int:
    area, group, serial = text.split("-")
    issued = area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"
    return len(text) if issued else 0


def _weighted_sum(digits: Sequence[str], weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))


def _cpf(text: str) -> int:
    digits = _digits(text)
    first = _weighted_sum(digits[:9], range(10, 1, -1)) * 10 % 11 % 10
    second = _weighted_sum(digits[:10], range(11, 1, -1)) * 10 % 11 % 10
    holds = digits[9:] == f"{first}{second}" and len(set(digits)) > 1
    return len(text) if holds else 0


def _rut(text: str) -> int:
    digits = _digits(text[:-1])
    total = _weighted_sum(digits[::-1], [2 + place % 6 for place in range(len(digits))])
    if "0K987654321"[total % 11] == text[-1].upper():
        return len(text)
    return _dni(text) if text[-1] == "K" else 0


def _cuit(text: str) -> int:
    digits = _digits(text)
    check = -_weighted_sum(digits[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return len(text) if check == int(digits[10]) else 0


def _nir(text: str) -> int:
    number = text.replace(" ", "").replace("2A", "19").replace("2B", "18")
    holds = number.isdigit() and 97 - int(number[:13]) % 97 == int(number[13:])
    return len(text) if holds else 0


def _curp(text: str) -> int:
    values = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(values.index(one) * (18 - place) for place, one in enumerate(text[:17]))
    return len(text) if str(-total % 10) == text[17] else 0


def _codice_fiscale(text: str) -> int:
    total = 0
    for place, one in enumerate(text[:15]):
        value = int(one) if one.isdigit() else ord(one) - ord("A")
        total += value if place % 2 else _ODD_PLACES[value]
    return len(text) if chr(ord("A") + total % 26) == text[15] else 0


_CHECKS: dict[str, Callable[[str], int]] = {
    "payment_card": _card,
    "social_security_number": _social_security,
    "dni": _dni,
    "cpf": _cpf,
    "rut": _rut,
    "cuit": _cuit,
    "nir": _nir,
    "iban": _iban,
    "nie": _nie,
    "curp": _curp,
    "codice_fiscale": _codice_fiscale,
}
