"""One certificate authority a cluster, and the certificates and kubeconfigs that it signs."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import yaml

from localcluster import shell
from localcluster.layout import Layout

DAYS = 365
# `openssl req -x509` would make every certificate an authority without a configuration of ours.
OPENSSL_CONFIG = """\
[req]
distinguished_name = name
prompt = no
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,digitalSignature
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = ${ENV::SAN}
"""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key on disk."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; all files are in the folder `pki` of the cluster."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folder = layout.pki
        self.pair = Pair(self._folder / "ca.crt", self._folder / "ca.key")
        self.service_account_key = self._folder / "service-account.key"

    def create(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        self._config.write_text(OPENSSL_CONFIG)
        self._request(self.pair, "/CN=rtj-localcluster", ["-extensions", "authority"])
        # In the old form of an EC key: the API server reads no other as a public key.
        create_key = ["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout"]
        shell.run([*create_key, "-out", self.service_account_key])

    @property
    def _config(self) -> Path:
        return self._folder / "openssl.cnf"

    def issue(self, name: str, subject: str, alternatives: str = "DNS:localhost") -> Pair:
        """Sign a certificate for `subject`, e.g. /O=system:nodes/CN=system:node:n1."""
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        signer = ["-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key)]
        self._request(pair, subject, ["-extensions", "leaf", *signer], alternatives)
        return pair

    def _request(self, pair: Pair, subject: str, extra: list[str], san: str = "") -> None:
        shell.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", str(DAYS), "-config", self._config, "-subj", subject,
             "-keyout", pair.key, "-out", pair.certificate, *extra],
            env={"PATH": "/usr/bin:/bin", "SAN": san or "DNS:unused"},
        )  # fmt: skip
        pair.key.chmod(0o600)

    def kubeconfig(self, path: Path, user: str, pair: Pair, *, host: str) -> Path:
        """Write a kubeconfig that carries its certificates, so that it can be copied."""
        server = f"https://{host}:{self._layout.api_port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": self._layout.prefix,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _encoded(self.pair.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": _encoded(pair.certificate),
                        "client-key-data": _encoded(pair.key),
                    },
                }
            ],
            "contexts": [
                {
                    "name": self._layout.prefix,
                    "context": {"cluster": self._layout.prefix, "user": user},
                }
            ],
            "current-context": self._layout.prefix,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
