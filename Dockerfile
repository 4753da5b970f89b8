# Two images of this checkout, neither of which runs as root (docs/containers.md):
#   docker build --target cpu  --tag snellen .          torch for the CPU; EXTRAS= leaves it out, for models behind an API
#   docker build --target cuda --tag snellen:cuda .     torch with its own CUDA; needs only the driver on the host
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS wheel
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE NOTICE ./
COPY src src
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --no-deps --wheel-dir /wheels . && python3 -m venv /opt/snellen

# The constraints name torch of the package index, to which the builds for the CPU do not belong.
FROM wheel AS cpu-packages
ARG EXTRAS=local,features
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt .
RUN --mount=type=cache,target=/root/.cache/pip \
    if [ -n "$EXTRAS" ]; then /opt/snellen/bin/pip install torch torchvision --index-url "$TORCH_INDEX"; fi && \
    grep -vE '^(torch|torchvision)=' constraints.txt > others.txt && \
    /opt/snellen/bin/pip install --constraint others.txt "$(ls /wheels/*.whl)${EXTRAS:+[$EXTRAS]}"

FROM wheel AS cuda-packages
ARG EXTRAS=local,features
COPY constraints.txt .
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/snellen/bin/pip install --constraint constraints.txt "$(ls /wheels/*.whl)[$EXTRAS]"

# /project is where a folder of the host is mounted; the home keeps the key that marks own runs, models and caches. Both can be
# written by any user, for `docker run --user "$(id -u):$(id -g)"`.
FROM python:${PYTHON}-slim-bookworm AS runtime
RUN useradd --uid 1000 --home-dir /home/snellen snellen && \
    install --directory --mode=1777 /project /home/snellen
ENV PATH=/opt/snellen/bin:$PATH HOME=/home/snellen PYTHONUNBUFFERED=1
WORKDIR /project
USER 1000:1000
ENTRYPOINT ["snellen"]
CMD ["--help"]

FROM runtime AS cuda
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=cuda-packages /opt/snellen /opt/snellen

FROM runtime AS cpu
COPY --from=cpu-packages /opt/snellen /opt/snellen
