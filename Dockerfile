# The plugin in Fluent Bit's official image (target fluent-bit), and the two
# programs of the demo beside it (targets receiver and writer).

# Debian 12: its glibc is older than the one of Fluent Bit's image (Debian 13), so
# the library loads there.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN make build/out_k8saudit.so VERSION=${VERSION} \
 && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o build/ ./cmd/auditsink ./cmd/auditgen
# Where the shipped configuration posts to. Without it the configuration stays as
# it is, to be replaced by a mount.
ARG AUDIT_WEBHOOK_URL=
RUN test -z "${AUDIT_WEBHOOK_URL}" || sed -i "s|https://audit-webhook.example.com/audit|${AUDIT_WEBHOOK_URL}|" fluent-bit.conf
# Volumes take their owner from the folder of the image: the one that the demo runs as.
RUN mkdir -p empty && chown 65532:65532 empty

FROM fluent/fluent-bit:5.2.0 AS fluent-bit
COPY --from=build /src/build/out_k8saudit.so /fluent-bit/lib/
COPY --from=build /src/fluent-bit.conf /fluent-bit/etc/
COPY --from=build --chown=65532:65532 /src/empty /var/lib/fluent-bit
ENTRYPOINT ["/fluent-bit/bin/fluent-bit"]
CMD ["-e", "/fluent-bit/lib/out_k8saudit.so", "-c", "/fluent-bit/etc/fluent-bit.conf"]

FROM scratch AS receiver
COPY --from=build /src/build/auditsink /
COPY --from=build --chown=65532:65532 /src/empty /var/lib/auditsink
USER 65532:65532
ENTRYPOINT ["/auditsink"]

FROM scratch AS writer
COPY --from=build /src/build/auditgen /
COPY --from=build --chown=65532:65532 /src/empty /var/log/kubernetes/audit
USER 65532:65532
ENTRYPOINT ["/auditgen"]
