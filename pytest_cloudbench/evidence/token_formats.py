"""The forms of tokens that services issue: a fixed beginning, then characters of an alphabet.

The beginnings are published by the services, so that such tokens can be found in texts. A token may be broken by a line
end, or cut off. The rules of gitleaks do not replace this table: compiling them takes 0.4 s, and they missed 104 of
197 planted tokens, because they look for whole tokens between spaces or quotes.
"""

from __future__ import annotations

from dataclasses import dataclass

_BREAK = r"(?:[\"']?\\?(?:\r?\n|\\r?\\?n)[ \t]*(?:E[ \t]+)?[\"']?)?"
"""A line end within a token: of a wrapped text, a shell's or JSON's, between quotes, or in pytest's traceback."""
_CONTINUED = r"(?:\\\r?\n[ \t]*|[\"']\s*\n\s*[\"'])"
"""A line end after which the text explicitly goes on: a backslash, or two adjacent strings."""

ALNUM = "[A-Za-z0-9]"
WORD = "[A-Za-z0-9_]"
DASHED = "[A-Za-z0-9_-]"
DOTTED = "[A-Za-z0-9_.-]"
BASE64 = "[A-Za-z0-9+/=]"
HEX = "[0-9a-f]"


@dataclass(frozen=True)
class TokenFormat:
    """The tokens of one service: ``begins`` are their beginnings.

    ``least`` characters must follow, so that a token that was cut off is found too. ``usual`` is their number in a
    whole token, which may span several lines.
    """

    service: str
    begins: tuple[str, ...]
    alphabet: str
    least: int
    usual: int = 0

    @property
    def rest(self) -> str:
        """A regular expression for what follows the beginning."""
        one, whole = self.alphabet, max(self.usual, self.least)
        return (
            rf"(?:(?:{one}{_BREAK}){{{whole - 1}}}{one}+|{one}{{{self.least},}}|{one}{{4,}}\.\.\.{one}{{4,}})"
            rf"(?:{_CONTINUED}(?=[A-Za-z_-]*[0-9]){one}{{4,}}(?![A-Za-z0-9_-]*(?:\s*[=:]|\.[A-Za-z0-9])))*"
        )


FORMATS = (
    TokenFormat("GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), WORD, 16, 36),
    TokenFormat("GitHub", ("github_pat_",), WORD, 16, 82),
    TokenFormat(
        "GitLab", ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glimt-"), DOTTED, 16, 20
    ),
    TokenFormat("GitLab", ("glptt-", "glagent-", "gloas-", "glffct-", "GR1348941"), DASHED, 16),
    TokenFormat("Slack", ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxe-"), "[A-Za-z0-9%-]", 5),
    TokenFormat("Slack", ("xoxc-", "xoxd-", "xoxe.xox", "xapp-"), "[A-Za-z0-9%-]", 10),
    TokenFormat("npm", ("npm_",), ALNUM, 30, 36),
    TokenFormat("PyPI", ("pypi-",), DASHED, 30),
    TokenFormat("RubyGems", ("rubygems_",), HEX, 40),
    TokenFormat("Google", ("AIza",), DASHED, 30, 35),
    TokenFormat("Google", ("ya29.",), DOTTED, 16, 60),
    TokenFormat("Google", ("GOCSPX-",), DASHED, 16),
    TokenFormat("Google", ("1//0",), DASHED, 30),
    TokenFormat("OpenAI", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"), DASHED, 16, 48),
    TokenFormat("OpenAI", ("sk-",), ALNUM, 20),
    TokenFormat("Anthropic", ("sk-ant-",), DASHED, 16, 100),
    TokenFormat("OpenRouter", ("sk-or-v1-",), HEX, 16),
    TokenFormat("Hugging Face", ("hf_", "api_org_"), ALNUM, 30, 34),
    TokenFormat("Replicate", ("r8_",), ALNUM, 30),
    TokenFormat("Groq", ("gsk_",), ALNUM, 40),
    TokenFormat("Perplexity", ("pplx-",), ALNUM, 30),
    TokenFormat("xAI", ("xai-",), ALNUM, 40),
    TokenFormat("Stripe", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), ALNUM, 16, 24),
    TokenFormat("Stripe", ("whsec_",), BASE64, 24),
    TokenFormat("Square", ("sq0atp-", "sq0csp-"), DASHED, 20),
    TokenFormat("Docker", ("dckr_pat_", "dckr_oat_"), DASHED, 16, 27),
    TokenFormat("DigitalOcean", ("dop_v1_", "doo_v1_", "dor_v1_"), HEX, 40, 64),
    TokenFormat("Vault", ("hvs.", "hvb.", "hvr."), DASHED, 20, 90),
    TokenFormat("Databricks", ("dapi",), HEX, 32),
    TokenFormat("Atlassian", ("ATATT3", "ATCTT3"), "[A-Za-z0-9_=-]", 30),
    TokenFormat("Linear", ("lin_api_", "lin_oauth_"), ALNUM, 30),
    TokenFormat("Notion", ("ntn_",), ALNUM, 40),
    TokenFormat("New Relic", ("NRAK-", "NRJS-", "NRIQ-"), ALNUM, 16),
    TokenFormat("Grafana", ("glsa_", "glc_"), "[A-Za-z0-9_+/=-]", 30),
    TokenFormat("Heroku", ("HRKU-",), DASHED, 30),
    TokenFormat("Shopify", ("shpat_", "shpss_", "shpca_", "shppa_"), ALNUM, 30),
    TokenFormat("Doppler", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), DOTTED, 30),
    TokenFormat("Fly.io", ("fo1_", "fm1_", "fm2_"), "[A-Za-z0-9_+/=-]", 30),
    TokenFormat("Postman", ("PMAK-",), "[A-Za-z0-9-]", 30),
    TokenFormat("PlanetScale", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), DOTTED, 30),
    TokenFormat("Pulumi", ("pul-",), HEX, 40),
    TokenFormat("Sentry", ("sntrys_", "sntryu_"), "[A-Za-z0-9_+/=-]", 30),
    TokenFormat("Tailscale", ("tskey-",), DASHED, 16),
    TokenFormat("Artifactory", ("AKCp",), ALNUM, 40),
    TokenFormat("Artifactory", ("cmVmdGtuOjAxOj",), ALNUM, 20),
    TokenFormat("CircleCI", ("CCIPAT_", "CCIPRJ_"), WORD, 30),
    TokenFormat("Buildkite", ("bkua_",), ALNUM, 30),
    TokenFormat("Figma", ("figd_",), DASHED, 30),
    TokenFormat("age", ("AGE-SECRET-KEY-1", "AGE-PLUGIN-"), "[A-Z0-9-]", 30, 58),
    TokenFormat("Alibaba", ("LTAI",), ALNUM, 16),
    TokenFormat("Brevo", ("xkeysib-", "xsmtpsib-"), "[A-Za-z0-9-]", 40),
    TokenFormat("Netlify", ("nfp_", "nfc_"), ALNUM, 30),
    TokenFormat("Supabase", ("sbp_", "sb_secret_"), DASHED, 20),
    TokenFormat("Sourcegraph", ("sgp_",), WORD, 40),
    TokenFormat("Contentful", ("CFPAT-",), DASHED, 30),
    TokenFormat("Dynatrace", ("dt0c01.", "dt0s16."), "[A-Z0-9.]", 30),
    TokenFormat("1Password", ("ops_eyJ",), BASE64, 40),
    TokenFormat("NVMe", ("DHHC-1:",), "[A-Za-z0-9+/=:]", 30),
)
