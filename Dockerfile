# One image for door, station and consumers; compose.yaml says which of them a container is.
FROM python:3.11-slim AS wheel
WORKDIR /build
COPY requirements.lock requirements-build.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/lazaretto \
    && /opt/lazaretto/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
# What builds the wheel is pinned, too, and stays out of the image.
RUN python -m venv /build/tools \
    && /build/tools/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY gateway ./gateway
COPY consumer ./consumer
RUN /build/tools/bin/pip wheel --no-cache-dir --no-deps --no-index --no-build-isolation --wheel-dir /build/wheel . \
    && /opt/lazaretto/bin/pip install --no-cache-dir --no-deps --no-index /build/wheel/*.whl

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/lazaretto lazaretto
COPY --from=wheel /opt/lazaretto /opt/lazaretto
ENV PATH=/opt/lazaretto/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    LAZARETTO_DATA=/var/lib/lazaretto/data
RUN install -d -o lazaretto -g lazaretto /var/lib/lazaretto/data
USER lazaretto
WORKDIR /var/lib/lazaretto
VOLUME /var/lib/lazaretto/data
CMD ["python", "-m", "gateway"]
