"""Patterns of secrets in a text: keys, tokens, signed URLs, credentials in command lines.

A pattern is searched for only if the text has one of its hints, so that long logs of figures cost next to nothing. No
pattern matches a replacement: removing twice gives the same text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from re import Match, Pattern

from pytest_cloudbench.evidence.text_views import Span
from pytest_cloudbench.evidence.token_formats import FORMATS


def removed(what: str) -> str:
    """Return the replacement of a secret. It has no quotes or backslashes, so that JSON around it stays valid."""
    return f"(removed: {what})"


REMOVED = r"(?!\(removed: )"
START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
r"""The start of a word, also after JSON's \n, \r or \t, which ends in a letter."""

ABOUT = r"(?:file|path|dir|directory|uri|url|arn|name|header|bucket|count|rate|size|length|limit|bytes|type|ttl|fd)s?"
"""The ends of names that describe a secret and do not contain it: password_file, token_bucket, secret_bytes."""
_IDEMPOTENT = r"cloudbench:token|(?-i:ClientToken)"
"""EC2's idempotency tokens are not secrets: nobody can use them for anything else. Vault's client_token is a secret."""
SECRET_NAME = re.compile(
    rf"""(?isx)
    webhook | connection[_-]?string | ^(?!.*{ABOUT}$ | {_IDEMPOTENT}$).*?(?:
    secret | passw | passphrase | (?:[_-]|^|db|user)(?:pwd|pass)$(?<!^pwd) | private[_-]?key
    | ed25519_private | token$ | credential | ^authorization$ | proxy-authorization | api[_-]?key
    | access[_-]?key(?:[_-]?id)?$ | (?:account|auth|encryption|signing|master|pre[_-]?shared)[_-]?key$
    | key[_-]?(?:material|data)$ | user[_-]?data$ | x-amz-signature | ^signature$ | ^ssh_keys$
    | ^(?:set-)?cookie$ | ^psk$ )
    """
)
"""Names of fields, variables and options whose values are always removed."""

_WORDS = (
    r"(?:secret|passw(?:or)?d|passphrase|passcode|token(?!s)|credentials?"
    r"|(?:private|api|access|account|auth|encryption|signing|master|shared|storage|pre-?shared)[_-]?key"
    r"|key[_-]?data|connection[_-]?string|(?<=[_-])p(?:wd|ass)(?![a-z])|(?<=db)p(?:wd|ass)(?![a-z]))"
)
_NOT_ABOUT = rf"(?![A-Za-z0-9_-]{{0,40}}?{ABOUT}(?![A-Za-z0-9_-]))"
_NAMED = rf"{_WORDS}{_NOT_ABOUT}[A-Za-z0-9_-]{{0,40}}"
_OPTION_NAMED = rf"(?:{_WORDS}|(?:pass|pwd)(?![a-z])){_NOT_ABOUT}"
_SHORT = r"(?<![A-Za-z0-9])(?:pass|pwd|psk|auth)(?![A-Za-z0-9_])"
_SHORT_STARTS = ("pass", "pwd", "psk", "auth")
_STARTS = (
    *(
        "secret",
        "passw",
        "passphrase",
        "passcode",
        "token",
        "credential",
        "private",
        "api",
        "access",
        "account",
        "auth",
    ),
    *(
        "encryption",
        "signing",
        "master",
        "shared",
        "storage",
        "preshared",
        "pre-shared",
        "keydata",
        "key-data",
    ),
    *("key_data", "connection", "pwd", "pass"),
)
_WS = r"(?:\s|\\\r?\n|\\[nrt])"
"""White space, also a shell's continued line, and JSON's escapes."""
_PLAIN = r"(?!(?:null|true|false|None|[0-9][0-9.,:eE+-]*)(?:[\s\"'\\,;&()<>\[\]{}]|$))"
"""What follows is neither a word of JSON or Python, such as null, nor a figure."""
_BETWEEN = rf"(?:{_WS}+|\\?[\"'],\s*\\?[\"'])"
"""What separates two words of a command, also in a list of words."""
_QUOTED = r"(?:\\\"(?:[^\"\\\n]|\\[^\"\n])*\\\"|\"(?:[^\"\\\n]|\\[^\n])*\"|\\?'(?:[^'\\\n]|\\[^'\n])*\\?')"
_ARGUMENT = rf"(?:{_QUOTED}|\$?[^\s\"'\\,;|<>$][^\s\"'\\;|<>]*)"

_READS_ITS_INPUT = (
    r"(?:\bsudo\b[^\n|;&]{0,80}?[ \t](?:-[A-Za-z]*S\b|--stdin)|\bcryptsetup\b"
    r"|--(?:password-stdin|passphrase-fd|stdin|with-token)\b|-pass(?:in|out)?[ \t]stdin\b)"
)
"""A command that reads a password from its input."""

PASSWORD_OPTIONS: dict[str, tuple[str, ...]] = {
    "sshpass": ("-p",),
    "mysql": ("-p",),
    "mysqldump": ("-p",),
    "mysqladmin": ("-p",),
    "mariadb": ("-p",),
    "redis-cli": ("-a", "--pass"),
    "curl": ("-u", "--user", "-U", "--proxy-user", "-b", "--cookie"),
    "docker login": ("-p",),
    "podman login": ("-p",),
    "mongo": ("-p",),
    "mongosh": ("-p",),
    "ldapsearch": ("-w",),
    "smbclient": ("-U",),
    "sqlcmd": ("-P",),
    "ipmitool": ("-P",),
    "zip": ("-P",),
    "unzip": ("-P",),
    "openssl": ("-pass", "-passin", "-passout"),
}
"""Commands, and their options whose values are passwords, although the options' names do not say so."""
ATTACHED = frozenset({"mysql", "mysqldump", "mysqladmin", "mariadb"})
"""Commands whose password is attached to the option: `-pSECRET`; the next word would be the name of a database."""


@dataclass(frozen=True)
class SecretPattern:
    """One kind of secret, found by literals in lower case, because a search for them is fast.

    ``starts`` are all texts with which a match can begin, or that stand ``back`` characters after its beginning.
    Without them the whole text is searched. ``hints`` are texts of which the searched text must contain one. Each of
    `PATTERNS` has starts, hints or both. ``before`` matches what must stand before the match. ``replacement`` is that
    of `re.sub`; without it the whole match is removed.
    """

    what: str
    expression: str
    starts: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    replacement: str | Callable[[Match[str]], str] = ""
    before: str = ""
    back: int = 0

    @cached_property
    def _compiled(self) -> Pattern[str]:
        return re.compile(self.expression)

    @cached_property
    def _before(self) -> Pattern[str]:
        return re.compile(rf"(?i)(?:{self.before})\Z")

    def spans(self, text: str, lower: str) -> list[Span]:
        """Return the secrets of this kind and their replacements; ``lower`` is the text in lower case."""
        if self.hints and not any(hint in lower for hint in self.hints):
            return []
        found: list[Span] = []
        for match in self._matches(text, lower):
            old, new = match[0], self._replaced(match)
            if old != new:
                same = _alike(old, new)
                tail = _alike(old[:same:-1], new[:same:-1])
                found.append((match.start() + same, match.end() - tail, new[same : len(new) - tail]))
        return found

    def _matches(self, text: str, lower: str) -> Iterator[Match[str]]:
        if not self.starts:
            yield from self._compiled.finditer(text)
            return
        end = 0
        for at in self._places(lower):
            if at < end or (self.before and not self._before.search(text, max(0, at - 200), at)):
                continue
            if (match := self._compiled.match(text, at)) is not None:
                end = match.end()
                yield match

    def _places(self, lower: str) -> list[int]:
        found = set()
        for start in self.starts:
            at = lower.find(start)
            while at >= 0:
                found.add(at - self.back)
                at = lower.find(start, at + 1)
        return sorted(each for each in found if each >= 0)

    def _replaced(self, match: Match[str]) -> str:
        if callable(self.replacement):
            return self.replacement(match)
        return match.expand(self.replacement) if self.replacement else removed(self.what)


def _alike(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _behind(what: str) -> str:
    """Return a replacement that keeps the first group of the match: the name before the value."""
    return rf"\1{removed(what)}"


def _kept_quotes(match: Match[str]) -> str:
    """Remove the value after a name, and keep its quotes."""
    value = match[2]
    quote = next((each for each in ('\\"', "\\'", '"', "'") if value.startswith(each)), "")
    inner = value[len(quote) : len(value) - len(quote)] if quote else value
    if not inner.strip() or inner.lstrip().startswith(("(removed: ", ",", "}", "]", ":", ")")):
        return match[0]
    return f"{match[1]}{quote}{removed('secret')}{quote}"


def _signed(match: Match[str]) -> str:
    """Remove the query of a URL if it has a signature. Unsigned URLs match too, so that each is scanned once."""
    return f"{match[1]}{removed('signed query')}" if _SIGNED.search(match[2]) else match[0]


def _looks_random(match: Match[str]) -> str:
    """Remove 40 characters that look like a key: neither a hexadecimal hash nor a path of words.

    Of neighbouring characters, two thirds are of different kinds in a random text, a quarter in words.
    """
    kinds = [_kind(char) for char in match[0]]
    changes = sum(map(operator.ne, kinds, kinds[1:]))
    random = {0, 1, 2} <= set(kinds) and changes >= 15
    return removed("secret access key") if random else match[0]


def _kind(char: str) -> int:
    return 0 if char.islower() else 1 if char.isupper() else 2 if char.isdigit() else 3


_URL = r"""(?:[^\s"'<>\\?]|\\/)+"""
_QUERY = r"""(?:[^\s"'<>\\]|\\u00[0-9a-fA-F]{2}|\\/)*"""
_SIGNS = (
    "X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature|"
    "AWSAccessKeyId|Signature|Key-Pair-Id|sig"
)
_SIGNED = re.compile(rf"{START}(?:{_SIGNS})=")
_SIGN_HINTS = ("x-amz-", "x-goog-", "awsaccesskeyid", "signature", "key-pair-id", "sig=")
_KEY_BREAK = r"(?:\s|\\+[nr])"
_KEY_LINES = (
    rf"(?:{_KEY_BREAK}*[A-Za-z0-9+/=]{{16,}})*"
    rf"""(?:{_KEY_BREAK}+[A-Za-z0-9+/=]{{1,15}}(?=["']|{_KEY_BREAK}*(?:\Z|-----)))?"""
)
"""Lines of a key without its end. Anything may follow, so short lines count only at the very end."""

TOKEN_PATTERNS = tuple(
    SecretPattern(
        "token",
        rf"{START}(?:{'|'.join(map(re.escape, each.begins))}){each.rest}",
        tuple(begin.lower() for begin in each.begins),
    )
    for each in FORMATS
)
_LINE = r"(?:^|[\n\r]|\\[nr])[ \t]*-?[ \t]*_?"
_HTTP = ("http://", "https://", "http:\\/\\/", "https:\\/\\/")
_VALUE = r"[^\s\"'\\,;&()<>\[\]{}]{3,}"

PATTERNS = (
    SecretPattern(
        "token", rf"{START}eyJ[A-Za-z0-9_-]{{8,}}\.eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*", ("eyj",)
    ),
    SecretPattern(
        "private key",
        r"-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-{4,5}"
        r"(?:(?:[A-Za-z0-9+/=\s:,.|>#*\"'()]|-(?!-{3,4} ?BEGIN)|\\+[nrt\"]|\\\n){0,20000}?"
        rf"-{{4,5}} ?END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-{{4,5}}|{_KEY_LINES})",
        ("-----begin ", "---- begin "),
    ),
    SecretPattern(
        "private key",  # only its end, if the text before was cut off
        r"(?:(?<![A-Za-z0-9+/=\\])|(?<=\\[nr]))[A-Za-z0-9+/=]{16,}(?:(?:\s|\\+[nr])+[A-Za-z0-9+/=]+){0,200}(?:\s|\\+[nr])*"
        r"-----END [A-Z0-9 ]*PRIVATE KEY-----",
        hints=(" private key-----",),
    ),
    SecretPattern(
        "private key", rf"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=]*{_KEY_LINES}", ("b3blbnnzac1rzxktdje",)
    ),
    SecretPattern(
        "private key",
        rf"(Private-Lines: [0-9]+)(?=(?:\s|\\[nr])+[A-Za-z0-9+/=]{{16}}){_KEY_LINES}",
        ("private-lines",),
        replacement=_behind("private key"),
    ),
    SecretPattern(
        "signature",
        rf"(https?:(?:/|\\/){{2}}{_URL}\??)({_QUERY})",
        _HTTP,
        _SIGN_HINTS,
        _signed,
    ),
    SecretPattern(
        "signature",
        rf"(?i)({START}X-Amz-(?:Signature|Credential|Security-Token)[\"']?\s*[=:]\s*[\"']?){REMOVED}[^\s\"'\\&,;]+",
        ("x-amz-",),
        replacement=_behind("signature"),
    ),
    SecretPattern(
        "login",
        rf"(:(?:/|\\/){{2}}){REMOVED}[^\s/@\"'\\<>?#]*:[^\s/\"'\\<>]+(?=@)",
        ("://", ":\\/\\/"),
        replacement=_behind("login"),
        before="[a-z0-9+.-]",
    ),
    SecretPattern(
        "login",  # a token in place of a user
        rf"(https?:(?:/|\\/){{2}}){REMOVED}[^\s/@\"'\\<>?:]+(?=@)",
        _HTTP,
        replacement=_behind("login"),
    ),
    SecretPattern(
        "authorization",
        rf"(?i)({START}authorization[\"']?\s*[=:](?!\s*[\"']?\(removed: )\s*[\"']?)"
        r"(?:[A-Za-z0-9-]+[ ]+)?(?:[A-Za-z]+=[^\s,;\"'\\]+(?:,[ ]*[A-Za-z]+=[^\s,;\"'\\]+)*|[^\s,;\"'\\]+)",
        ("authorization",),
        replacement=_behind("authorization"),
    ),
    SecretPattern(
        "authorization",
        rf"(?i)({START}bearer\s+){REMOVED}[A-Za-z0-9._~+/=-]{{8,}}",
        ("bearer",),
        replacement=_behind("authorization"),
    ),
    SecretPattern(
        "session token",
        rf"{START}(?:FwoG|IQoJ|FQoG|AQoD|AQoE)(?:[A-Za-z0-9+/=%_-]|\\/){{40,}}",
        ("fwog", "iqoj", "fqog", "aqod", "aqoe"),
    ),
    SecretPattern(
        "access key",
        rf"{START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{12,}}(?![a-z0-9])",
        ("akia", "asia", "abia", "acca"),
    ),
    SecretPattern(
        "token", rf"{START}sk-[A-Za-z0-9_-]{{0,160}}T3BlbkFJ[A-Za-z0-9]{{8,}}", ("sk-",), ("t3blbkfj",)
    ),
    SecretPattern("token", rf"{START}SG\.[A-Za-z0-9_-]{{16,}}\.[A-Za-z0-9_-]{{16,}}", ("sg.",)),
    SecretPattern("token", r"(?<=[0-9]{8}):[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])", (":",)),
    SecretPattern(
        "token", r"(?<=[A-Za-z0-9_-]{23})\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])", (".",)
    ),
    SecretPattern("token", rf"{START}(?:AC|SK)[a-z0-9]{{32}}(?![A-Za-z0-9])", ("ac", "sk")),
    SecretPattern("token", rf"{START}[0-9a-z]{{32}}-us[0-9]{{1,2}}(?![A-Za-z0-9])", ("-us",), back=32),
    SecretPattern("token", rf"{START}key-[0-9a-z]{{32}}(?![A-Za-z0-9])", ("key-",)),
    SecretPattern(
        "token", rf"{START}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_-]{{40,}}", (".atlasv1.",), back=14
    ),
    SecretPattern("token", rf"{START}pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}", ("pat",)),
    SecretPattern("token", r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", ("q~",), back=4),
    SecretPattern("token", rf"{START}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}", ("azdo",), back=76),
    SecretPattern(
        "webhook",
        r"(https:(?:/|\\/){2}(?:hooks\.slack\.com|[a-z.]*discord(?:app)?\.com(?:/|\\/)api|[a-z0-9-]+\.webhook\.office\.com)"
        rf"(?:/|\\/)){REMOVED}[^\s\"'<>]+",
        _HTTP,
        ("hooks.slack.com", "discord", "webhook.office.com"),
        _behind("webhook"),
    ),
    SecretPattern(
        "password hash",
        r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:id|i|d)|scrypt|pbkdf2[a-z0-9-]*)\$[./A-Za-z0-9$,=+-]{16,}",
        ("$1$", "$2", "$5$", "$6$", "$7$", "$y$", "$gy$", "$apr1$", "$argon2", "$scrypt", "$pbkdf2"),
    ),
    SecretPattern("password hash", r"\{S?SHA(?:256|384|512)?\}[A-Za-z0-9+/=]{20,}", ("{sha", "{ssha")),
    SecretPattern(
        "cookie",
        rf"(?i)(cookie\\?[\"']?\s*[:=,]\s*\\?[\"']?){REMOVED}[^\s=;:\"'\\,]+=[^\r\n\"'\\]+",
        ("cookie",),
        replacement=_behind("cookie"),
    ),
    SecretPattern(
        "secret",  # IDENTIFIED BY 'value', IDENTIFIED WITH plugin BY 'value'
        rf"(?i)(identified{_WS}+(?:with{_WS}+[\w'\"]{{1,80}}{_WS}+)?(?:by|as){_WS}+(?:password{_WS}+)?)({_QUOTED})",
        ("identified",),
        replacement=_kept_quotes,
    ),
    SecretPattern(
        "secret",  # IDENTIFIED BY value; in lower case it may be English
        rf"(IDENTIFIED{_WS}+BY{_WS}+){REMOVED}[^\s\"'\\;,]{{3,}}",
        ("identified",),
        replacement=_behind("secret"),
    ),
    SecretPattern(
        "secret",  # WITH PASSWORD 'value', PASSWORD('value'), SET PASSWORD FOR 'me'@'%' = 'value'
        rf"(?i)(password(?:{_WS}+for{_WS}+[^\s=]{{1,80}}{_WS}*={_WS}*(?:password{_WS}*\()?|{_WS}+|{_WS}*\({_WS}*))({_QUOTED})",
        ("password",),
        replacement=_kept_quotes,
    ),
    SecretPattern(
        "secret",  # echo value | sudo -S
        rf"((?:echo|printf)(?=[^|\n]{{1,300}}\|[^|\n]){_WS}+(?:-\S{{1,20}}{_WS}+){{0,3}})(?![-\s]|[\"']?\$[A-Za-z_{{(]){REMOVED}"
        rf"(?:{_QUOTED}|[^|\n;&\"'\\]|\\[^n]){{1,100}}"
        rf"(?=\|[^\n|;&]{{0,120}}?{_READS_ITS_INPUT})",
        ("echo", "printf"),
        ("sudo", "stdin", "-with-token", "cryptsetup", "-fd"),
        _behind("secret"),
    ),
    SecretPattern(
        "secret",  # sudo -S id <<< value
        rf"({_READS_ITS_INPUT}[^\n|;&<]{{0,120}}<<<[ \t]*\$?)(?![\"']?\$[A-Za-z_{{(]){REMOVED}{_ARGUMENT}",
        ("sudo", "cryptsetup", "--password-stdin", "--passphrase-fd", "--stdin", "--with-token"),
        ("<<<",),
        _behind("secret"),
    ),
    SecretPattern(
        "secret",  # name = "value", name := 'value', "name": "value", name => "value"
        rf"(?i)((?:{_NAMED}|{_SHORT})(?:\\?[\"'])?\]?\s*(?::=|=>|={{1,3}}|:)\s*[b@]?)({_QUOTED})",
        (*_STARTS, "psk"),
        replacement=_kept_quotes,
    ),
    SecretPattern(
        "secret",  # name=value, name: value
        rf"(?i)({_NAMED}(?:\\?[\"'])?(?:\s?:?={{1,3}}>?\s?|:(?:\s|\\[nt])|%3[Dd])(?:[|>][-+]?(?:\s|\\[nt])+)?)"
        rf"{REMOVED}{_PLAIN}{_VALUE}",
        _STARTS,
        replacement=_behind("secret"),
    ),
    SecretPattern(
        "secret",  # a short name: not PWD=/home/me
        rf"(?i)({_SHORT}[ \t]?=[ \t]?){REMOVED}(?![/$%]){_PLAIN}{_VALUE}",
        _SHORT_STARTS,
        replacement=_behind("secret"),
    ),
    SecretPattern(
        "secret",  # a short name and a colon: at the beginning of a line
        rf"(?i)({_SHORT}:[ \t]+){REMOVED}(?![/$%]){_PLAIN}{_VALUE}",
        _SHORT_STARTS,
        replacement=_behind("secret"),
        before=_LINE,
    ),
    SecretPattern(
        "secret",  # <password>value</password>
        rf"(?i)({_OPTION_NAMED}[\w.:-]{{0,40}}(?:\s[^<>]{{0,200}})?>){REMOVED}[^<]{{1,4000}}(?=<)",
        _STARTS,
        replacement=_behind("secret"),
        before=r"<[\w.:-]*",
    ),
    SecretPattern(
        "secret",  # --password value, ["--password", "value"]
        rf"(?i)({_OPTION_NAMED}[a-z-]{{0,40}}(?:{_BETWEEN}|=))(?!-){REMOVED}{_ARGUMENT}",
        _STARTS,
        replacement=_behind("secret"),
        before=r"(?:^|[\s\"']|\\[nrt])--?[a-z-]*",
    ),
    *(
        SecretPattern(
            "secret",  # mysql -pvalue, sshpass -p value, ["sshpass", "-p", "value"]
            rf"((?:(?<![\w.-])|(?<=\\[nrt])){command.replace(' ', _BETWEEN)}(?![\w.])"
            rf"(?:{_BETWEEN}(?!(?:{flags}))(?:[^\s|;&\"'\\]|\\(?![nrt\n])){{1,200}}|{_BETWEEN}{_QUOTED}){{0,30}}?"
            rf"{_BETWEEN}(?:{flags}){f'(?!{_WS})' if command in ATTACHED else f'(?:{_BETWEEN}|=)?'})"
            rf"{REMOVED}{_ARGUMENT}",
            (command.partition(" ")[0],),
            replacement=_behind("secret"),
        )
        for command, options in PASSWORD_OPTIONS.items()
        for flags in ["|".join(map(re.escape, sorted(options, key=len, reverse=True)))]
    ),
    SecretPattern(
        "secret",  # aws configure set aws_secret_access_key value
        rf"(?i)(config(?:ure)?{_BETWEEN}set{_BETWEEN}[^\s\"']{{0,80}}{_WORDS}[^\s\"']{{0,40}}{_BETWEEN}){REMOVED}{_ARGUMENT}",
        ("config",),
        replacement=_behind("secret"),
    ),
    SecretPattern(
        "secret",  # .netrc
        rf"(password{_WS}+){REMOVED}[^\s\"'\\]+",
        ("password",),
        replacement=_behind("secret"),
        before=rf"(?:machine|login|account){_WS}+[^\s\\]+{_WS}+",
    ),
    SecretPattern(
        "secret",  # .pgpass
        rf"((?<=[\w*]):(?:[0-9]{{4,5}}|\*):[^\s:\\]{{1,64}}:[^\s:\\]{{1,64}}:){REMOVED}[^\s\"'\\]{{1,200}}",
        (":",),
        (":*:", *(f":{port}:" for port in ("5432", "5433", "5434", "6432", "25060"))),
        _behind("secret"),
        before=r"(?:^|[\s\"'(=\[{>]|\\[nrt])(?:localhost|\*|[a-z0-9_-]+\.[a-z0-9_.-]+)",
    ),
    SecretPattern(
        "secret",  # echo 'root:value' | chpasswd
        rf"((?:echo|printf)\s+(?:-\S{{1,20}}\s+){{0,3}}[\"']?[\w.-]{{1,64}}:){REMOVED}[^\s\"'|]{{1,200}}"
        r"(?=[^\n|]{0,200}\|\s*(?:sudo\s+)?chpasswd)",
        ("echo", "printf"),
        ("chpasswd",),
        _behind("secret"),
    ),
)

SECRET_ACCESS_KEY = SecretPattern(
    "secret access key",
    r"(?:(?<![A-Za-z0-9/+])(?<!==)|(?<=\\[nrt]))[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
    replacement=_looks_random,
)
"""Searched for only in a text that has a run of at least 40 such characters."""
