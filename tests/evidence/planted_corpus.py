"""Secrets of every kind that docs/evidence.md promises to remove, generated from a seed, in the texts they occur in.

None of them was ever valid. ``python tests/evidence/planted_corpus.py [SEED] [ROUNDS]`` cleans them and prints what is
left and the rate of cleaning.
"""

from __future__ import annotations

import base64
import json
import random
import string
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from pytest_cloudbench.evidence.secret_patterns import ATTACHED, PASSWORD_OPTIONS

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
ALNUM = UPPER + LOWER + DIGITS
DASHED = ALNUM + "_-"
BASE64 = ALNUM + "+/"
HEX = "0123456789abcdef"
PASSWORD = ALNUM + "!#%^*-_+.~"


@dataclass(frozen=True)
class Planted:
    """A text with a secret. ``parts`` must not be in the cleaned text."""

    kind: str
    context: str
    text: str
    parts: tuple[str, ...]


class Maker:
    """Makes secrets from a random generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chars(self, alphabet: str, length: int) -> str:
        return "".join(self.random.choice(alphabet) for _ in range(length))

    def password(self) -> str:
        return self.random.choice(ALNUM) + self.chars(PASSWORD, 11) + self.random.choice(ALNUM)

    def pem(self, kind: str = "RSA ") -> str:
        body = "\n".join(textwrap.wrap(self.chars(BASE64, 64 * 6 + 40), 64))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"

    def tokens(self) -> dict[str, str]:
        """Return one token of each kind that is recognised by its form alone."""
        c = self.chars
        jwt = base64.urlsafe_b64encode(json.dumps({"sub": c(ALNUM, 12)}).encode()).decode().rstrip("=")
        return {
            "AWS access key id": "AKIA" + c(UPPER + "234567", 16),
            "AWS temporary key id": "ASIA" + c(UPPER + "234567", 16),
            "AWS secret access key": self.aws_secret(),
            "AWS session token": "IQoJb3JpZ2luX2VjE" + c(BASE64, 260),
            **{f"GitHub {p}": p + c(ALNUM, 36) for p in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")},
            "GitHub fine-grained": f"github_pat_{c(ALNUM, 22)}_{c(ALNUM, 59)}",
            **{f"GitLab {p}": p + c(DASHED, 20) for p in ("glpat-", "gldt-", "glrt-", "glptt-", "glsoat-")},
            "Slack bot": f"xoxb-{c(DIGITS, 12)}-{c(DIGITS, 12)}-{c(ALNUM, 24)}",
            "Slack user": f"xoxp-{c(DIGITS, 12)}-{c(DIGITS, 12)}-{c(HEX, 32)}",
            "Slack app": f"xapp-1-A{c(UPPER + DIGITS, 10)}-{c(DIGITS, 13)}-{c(HEX, 64)}",
            "Discord bot": f"M{c(ALNUM, 23)}.{c(DASHED, 5)}x.{c(ALNUM, 38)}",
            "OpenAI project": "sk-proj-" + c(ALNUM, 48),
            "OpenAI": f"sk-{c(ALNUM, 20)}T3BlbkFJ{c(ALNUM, 20)}",
            "Anthropic": "sk-ant-api03-" + c(ALNUM, 93) + "AA",
            "Hugging Face": "hf_" + c(UPPER + LOWER + DIGITS, 34),
            "SendGrid": f"SG.{c(ALNUM, 22)}.{c(ALNUM, 43)}",
            "Telegram": f"{c('123456789', 10)}:AA{c(ALNUM, 33)}",
            "Google API key": "AIza" + c(ALNUM, 35),
            "Google access token": "ya29." + c(ALNUM, 60),
            "Google client secret": "GOCSPX-" + c(ALNUM, 28),
            "age": "AGE-SECRET-KEY-1" + c("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
            "Stripe live": "sk_live_" + c(ALNUM, 24),
            "Stripe restricted": "rk_live_" + c(ALNUM, 24),
            "Square": "sq0csp-" + c(ALNUM, 43),
            "Twilio": "SK" + c(HEX, 32),
            "Mailchimp": f"{c(HEX, 32)}-us{self.random.randint(1, 21)}",
            "Mailgun": "key-" + c(HEX, 32),
            "npm": "npm_" + c(ALNUM, 36),
            "PyPI": "pypi-AgEIcHlwaS5vcmc" + c(ALNUM, 120),
            "RubyGems": "rubygems_" + c(HEX, 48),
            "Docker Hub": "dckr_pat_" + c(ALNUM, 27),
            "DigitalOcean": "dop_v1_" + c(HEX, 64),
            "Vault": "hvs." + c(ALNUM, 90),
            "Terraform Cloud": f"{c(ALNUM, 14)}.atlasv1.{c(ALNUM, 67)}",
            "Databricks": "dapi" + c(HEX, 32),
            "Atlassian": "ATATT3xFfGF0" + c(ALNUM, 180),
            "Linear": "lin_api_" + c(ALNUM, 40),
            "New Relic": "NRAK-" + c(UPPER + DIGITS, 27),
            "Grafana": f"glsa_{c(ALNUM, 32)}_{c(HEX, 8)}",
            "Shopify": "shpat_" + c(HEX, 32),
            "Doppler": "dp.pt." + c(ALNUM, 43),
            "Postman": f"PMAK-{c(HEX, 24)}-{c(HEX, 34)}",
            "Pulumi": "pul-" + c(HEX, 40),
            "Sentry": "sntryu_" + c(HEX, 64),
            "Tailscale": f"tskey-auth-{c(ALNUM, 17)}-{c(ALNUM, 32)}",
            "Azure client secret": f"{c(ALNUM, 3)}8Q~{c(ALNUM, 34)}",
            "Azure DevOps": f"{c(ALNUM, 76)}AZDO{c(ALNUM, 4)}",
            "Airtable": f"pat{c(ALNUM, 14)}.{c(HEX, 64)}",
            "JSON Web Token": f"eyJhbGciOiJIUzI1NiJ9.{jwt}.{c(DASHED, 43)}",
            "NVMe in-band key": f"DHHC-1:00:{c(BASE64, 48)}:",
            "password hash SHA-512": f"$6${c(ALNUM, 16)}${c(ALNUM + './', 86)}",
            "password hash yescrypt": f"$y$j9T${c(ALNUM + './', 22)}${c(ALNUM + './', 43)}",
            "password hash bcrypt": f"$2b$12${c(ALNUM + './', 53)}",
        }

    def aws_secret(self) -> str:
        while True:
            text = self.chars(BASE64, 40)
            if all(any(kind(each) for each in text) for kind in (str.islower, str.isupper, str.isdigit)):
                return text

    def named(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield secrets that their surroundings reveal: what it is, a text, and the parts that must go."""
        p = self.password
        c = self.chars
        for what, form in NAMED.items():
            secret = p()
            yield what, form.replace("{}", secret), (secret,)
        for command, options in PASSWORD_OPTIONS.items():
            for option in options:
                between = "" if command in ATTACHED else " "
                text = f"{command} -x 1 {option}{between}{(secret := p())} last"
                yield f"{command} {option}", text, (secret,)
                yield f"words of {command} {option}", repr(text.split()), (secret,)
        yield "LDAP hash", f"userPassword: {{SSHA}}{(k := c(BASE64, 32))}", (k,)
        b64 = base64.b64encode(f"me:{p()}".encode()).decode()
        yield "docker auth", json.dumps({"auths": {"ghcr.io": {"auth": b64}}}), (b64,)
        yield "basic authorization", f"> Authorization: Basic {b64}\r\n", (b64,)
        yield (
            "Azure storage key",
            f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={(k := c(BASE64, 86))}==;E=1",
            (k,),
        )
        yield (
            "Azure shared key",
            f"Endpoint=sb://x/;SharedAccessKeyName=r;SharedAccessKey={(k := c(BASE64, 43))}=",
            (k,),
        )
        yield (
            "Slack webhook",
            f"curl https://hooks.slack.com/services/T0{c(UPPER, 8)}/B0{c(UPPER, 8)}/{(k := c(ALNUM, 24))}",
            (k,),
        )
        yield (
            "Discord webhook",
            f"POST https://discord.com/api/webhooks/{c(DIGITS, 18)}/{(k := c(ALNUM, 68))} 204",
            (k,),
        )
        yield "shadow", f"root:$6${c(ALNUM, 16)}${(k := c(ALNUM, 86))}:19000:0:99999:7:::", (k,)
        yield "htpasswd", f"me:$apr1${c(ALNUM, 8)}${(k := c(ALNUM, 22))}\n", (k,)
        yield "WireGuard", f"[Interface]\nPrivateKey = {(k := c(BASE64, 43))}=\n", (k,)
        yield "kubeconfig", f"    client-key-data: {(k := c(BASE64, 300))}\n", (k,)
        yield (
            "signed URL",
            f"https://b.s3.amazonaws.com/r?X-Amz-Date=1&X-Amz-Signature={(k := c(HEX, 64))}",
            (k,),
        )
        yield (
            "shared access signature",
            f"https://x.blob.core.windows.net/y?sv=2022&sig={(k := c(ALNUM, 43))}%3D",
            (k,),
        )
        for kind in ("RSA ", "OPENSSH ", "EC ", "", "ENCRYPTED "):
            key = self.pem(kind)
            lines = tuple(key.split("\n")[1:-1])
            name = f"{kind}private key".strip()
            yield name, f"writing\n{key}\ndone", lines
            yield f"{name} in JSON", json.dumps({"pem": key, "n": 1}), lines
            yield f"{name} in YAML", "key: |\n" + textwrap.indent(key, "    ") + "\nnext: 1\n", lines
            yield f"{name} in a traceback", textwrap.indent(f"ValueError: {key}", "E       "), lines
            yield f"{name} quoted", "> " + key.replace("\n", "\n> "), lines
            yield f"base64 of {name}", (b := base64.b64encode(key.encode()).decode()), (b[100:140],)
            yield (
                f"wrapped base64 of {name}",
                (w := "\n".join(textwrap.wrap(b, 76))),
                tuple(w.split("\n")[1:3]),
            )


NAMED = {
    "db_pass": "db_pass={} ./run",
    "DB_PASS in env": "export DB_PASS='{}'",
    "db_pwd in JSON": '{"db_pwd": "{}", "n": 1}',
    "password element": "<config><password>{}</password></config>",
    "password attribute": '<user name="x" password="{}"/>',
    "cookie": "Cookie: session={}; theme=dark",
    "cookie in JSON": '{"headers": {"Set-Cookie": "sid={}; Path=/"}}',
    "cookie of curl": "curl -s -b 'sid={}' https://x",
    "token in URL": "git clone https://{}@git.example.org/x.git",
    "login in URL": "psql postgres://me:{}@db.example.org/x",
    "login in JSON URL": '{"u": "redis:\\/\\/:{}@cache:6379\\/0"}',
    "sshpass": "sshpass -p {} ssh root@10.0.0.1",
    "sshpass quoted": "sshpass -p '{}' ssh root@10.0.0.1",
    "sshpass words": '["sshpass", "-p", "{}", "ssh", "x"]',
    "mysql": "mysql -h db -u root -p{} -e 'select 1'",
    "mysqldump words": "['mysqldump', '-uroot', '-p{}', 'db']",
    "redis-cli": "redis-cli -h x -a {} ping",
    "curl login": "curl -fsS -u me:{} https://x",
    "ldapsearch": "ldapsearch -x -D cn=a -w {} -b dc=x",
    "docker login": "docker login -u me -p {} ghcr.io",
    "openssl": "openssl rsa -in k.pem -passin pass:{} -out o",
    "netrc": "machine api.example.org login me password {}",
    "netrc lines": "machine api.example.org\n  login me\n  password {}\n",
    "pgpass": "db.example.org:5432:orders:me:{}",
    "pgpass any": "*:5432:*:postgres:{}",
    "chpasswd": "echo 'root:{}' | chpasswd",
    "PGPASSWORD": "PGPASSWORD={} psql -h x",
    "YAML": "db:\n  password: {}\n  user: me\n",
    "YAML pass": "db:\n  pass: {}\n",
    "YAML block": "password: >-\n  {}\nuser: me\n",
    "ini": "[client]\npassword = {}\n",
    "Python": 'connect(host="x", password="{}", port=1)',
    "Python repr": "Config(user='me', db_password='{}', n=3)",
    "dict repr": "{'host': 'x', 'api_key': '{}'}",
    "Ruby": ':secret_key => "{}",',
    "Go": 'password := "{}"',
    "JSON in JSON": '{"body": "{\\"token\\": \\"{}\\"}"}',
    "client secret": "client_secret={}&grant_type=client_credentials",
    "URL query": "GET /x?access_token={}&z=1 HTTP/1.1",
    "API key header": "X-Api-Key: {}",
    "token header": "curl -H 'Private-Token: {}' x",
    "bearer": "Authorization: Bearer {}x1",
    "option": "tool --password {} --host x",
    "option with =": "tool --db-password={} x",
    "option on the next line": "tool --password \\\n  {} \\\n  --host x",
    "option words": 'run(["login", "--token", "{}"])',
    "JDBC": "jdbc:sqlserver://x;user=me;password={};encrypt=true",
    "ODBC": "Driver={x};Server=y;Uid=me;Pwd={};",
    "iSCSI": "node.session.auth.password = {}",
    "Wi-Fi": 'network={\n  psk="{}"\n}',
    "traceback": "E       ValueError: login failed: password='{}'",
    "local variable": "password   = '{}'",
    "npmrc": "//registry.example.org/:_authToken={}",
    "pip.conf": "index-url = https://me:{}@pypi.example.org/simple",
    "AWS CLI": "aws configure set aws_secret_access_key {}",
    "encoded form": "next=%2F&password%3D{}",
    "escaped quotes": 'password="{}\\"x"',
    "PowerShell": "Connect-X -Password {} -Host y",
    "connection string": 'connection_string: "host=x {}"',
    "terraform": '  db_password = "{}"',
    "smbclient": "smbclient //x/y -U me%{}",
    "zip": "zip -P {} a.zip b",
    "base64 line": "encoded: c2VjcmV0 password={}",
}
"""Texts with a password in place of {}."""


def contexts() -> dict[str, Callable[[str, random.Random], str]]:
    """Return the texts around a token that its form reveals."""
    return {
        "command line": lambda t, r: f"tool run --verbose {t} out.txt",
        "list of words": lambda t, r: repr(["tool", t, "out"]),
        "JSON": lambda t, r: json.dumps({"value": t, "count": 3}),
        "JSON in JSON": lambda t, r: json.dumps({"body": json.dumps({"value": t})}),
        "YAML": lambda t, r: f"first: 1\nvalue: {t}\nlast: 2\n",
        "environment": lambda t, r: f"export SOME_VALUE={t}; run",
        "URL": lambda t, r: f"https://api.example.org/v1?id=7&v={t}&z=1",
        "header": lambda t, r: f"> X-Thing: {t}\r\n> Accept: */*",
        "traceback": lambda t, r: f'  File "x.py", line 3, in f\nE   ValueError: bad reply: {t}',
        "HTML": lambda t, r: f"<tr><td>{t}</td></tr>",
        "Markdown": lambda t, r: f"| value | `{t}` |",
        "CSV": lambda t, r: f"1,{t},2\n",
        "log": lambda t, r: f"2026-11-28T10:00:00Z INFO used {t}.",
        "base64": lambda t, r: base64.b64encode(f"#!/bin/sh\nrun the tool with {t} now\n".encode()).decode(),
        "quoted": lambda t, r: f"say '{t}'",
    }


def split_over_lines(token: str, rng: random.Random) -> str:
    """Return the token broken by a line end, as a narrow terminal or a shell does."""
    at = rng.randint(len(token) // 2, len(token) - 4)
    return token[:at] + rng.choice(["\n", "\\\n", '"\n  "', "\n    "]) + token[at:]


SPLIT = (
    "GitHub ghp_", "GitHub fine-grained", "GitLab glpat-", "OpenAI project", "Anthropic", "Hugging Face", "npm",
    "Vault", "Google API key", "Google access token", "Stripe live", "Docker Hub", "age", "DigitalOcean",
)  # fmt: skip


def planted(seed: int = 7) -> list[Planted]:
    """Return the corpus: every kind of token in three contexts, and every secret that its name reveals."""
    maker = Maker(seed)
    rng = maker.random
    found = []
    around = contexts()
    made = [maker.tokens() for _ in range(4)]
    for kind in made[0]:
        for tokens, context in zip(made, rng.sample(sorted(around), 3), strict=False):
            token = tokens[kind]
            text = around[context](token, rng)
            part = token.strip(":=")[-max(8, len(token) // 2) :]
            parts = (base64.b64encode(text.encode()).decode()[40:60],) if context == "base64" else (part,)
            if context == "base64":
                parts = (text[40:60],)
            found.append(Planted(kind, context, text, parts))
    for kind in SPLIT:
        token = made[3][kind]
        text = split_over_lines(token, rng)
        found.append(Planted(kind, "split over lines", f"the value is {text} here", (token[-4:],)))
    for what, text, parts in maker.named():
        found.append(Planted(what, "as it occurs", text, parts))
    return found


def leaked(clean: Callable[[str], str], corpus: list[Planted]) -> list[Planted]:
    """Return the planted secrets of which something is left."""
    left = []
    for each in corpus:
        cleaned = clean(each.text)
        forms = [form for part in each.parts for form in {part, quote(part, safe="")}]
        if any(form in cleaned for form in forms) or not all(
            part in each.text for part in each.parts if "\n" not in each.text
        ):
            left.append(each)
    return left


if __name__ == "__main__":
    from pytest_cloudbench.evidence.cleaner import Cleaner

    first, rounds = (
        (int(each) for each in (*sys.argv[1:], "7", "1")[:2])
        if len(sys.argv) < 3
        else map(int, sys.argv[1:3])
    )
    tried = bad = 0
    for seed in range(first, first + rounds):
        corpus = planted(seed)
        tried += len(corpus)
        for each in leaked(Cleaner({}).text, corpus):
            bad += 1
            print(
                f"{each.kind} ({each.context}): {each.text[:160]!r}\n   -> {Cleaner({}).text(each.text)[:200]!r}"
            )
    print(f"{tried:,} planted, {bad} left")
