"""TLS in front of a server that may be built without it, as a proxy of a hosted server has it.

The certificate is made with `cryptography` (Ray needs it, so it is there), self-signed for localhost.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path


def certificate(folder: Path) -> tuple[Path, Path]:
    """Key and certificate files for localhost."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_file, cert_file = folder / "key.pem", folder / "cert.pem"
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return key_file, cert_file


@contextlib.contextmanager
def tls_in_front_of(port: int, key: Path, cert: Path) -> Iterator[int]:
    """The port that speaks TLS; what comes through goes to the plain `port` of this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    loop = asyncio.new_event_loop()
    listening: list[int] = []
    ready = threading.Event()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))

    async def run(stop: asyncio.Event) -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        listening.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        server.close()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(run(stop)), daemon=True)
    thread.start()
    assert ready.wait(10)
    yield listening[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
