#!/bin/sh
# The demo: an audit log goes through the plugin to a receiver, which compares
# what it got with the log. It runs in a real fluent-bit with the shipped
# fluent-bit.conf if FLUENT_BIT names one, else in the bundled host.
set -eu

build=${BUILD:-build}
work=$(mktemp -d)
log=${AUDIT_LOG:-}
sink=
trap 'test -z "$sink" || kill "$sink" 2>/dev/null; rm -rf "$work"' EXIT INT TERM

if [ -z "$log" ]; then
	for gz in test/e2e/testdata/*.log.gz; do gunzip -c "$gz"; done >"$work/audit.log"
	log=$work/audit.log
fi
events=$(wc -l <"$log")

echo "== receiver: an audit webhook that stores each batch before it answers"
"$build/auditsink" -listen 127.0.0.1:0 -store "$work/received.log" -verify "$log" \
	>"$work/verdict" 2>"$work/sink.log" &
sink=$!
until grep -q 'listening on' "$work/sink.log"; do
	kill -0 "$sink" || { cat "$work/sink.log"; exit 1; }
	sleep 0.1
done
url=http://$(sed -n 's/.*listening on //p' "$work/sink.log" | head -n 1)/audit
echo "   $url"

if [ -n "${FLUENT_BIT:-}" ]; then
	echo "== fluent-bit ($("$FLUENT_BIT" --version | head -n 1)) tails $events events with the shipped fluent-bit.conf"
	sed -e "s|^\( *Path  *\)/.*|\1$log|" \
		-e "s|https://audit-webhook.example.com/audit|$url|" \
		-e "s|/var/lib/fluent-bit|$work|" fluent-bit.conf >"$work/fluent-bit.conf"
	grep -qF " $log" "$work/fluent-bit.conf" || { echo "   fluent-bit.conf has no Path to replace"; exit 1; }
	"$FLUENT_BIT" -q -e "$build/out_k8saudit.so" -c "$work/fluent-bit.conf" 2>"$work/host.log" &
	host=$!
	# Stopped as soon as everything has arrived, or after a minute.
	tries=0
	while [ "$(wc -l <"$work/received.log")" -lt "$events" ] && [ $tries -lt 300 ] && kill -0 $host 2>/dev/null; do
		sleep 0.2
		tries=$((tries + 1))
	done
	echo "== graceful stop"
	kill -TERM $host 2>/dev/null || true
	wait $host || true
else
	echo "== no fluent-bit on PATH: the bundled host sends $events events, then stops gracefully"
	"$build/flbhost" --plugin "$build/out_k8saudit.so" --output --set URL="$url" --workers 1 \
		--log "$log" 2>"$work/host.log"
fi
grep 'k8saudit' "$work/host.log" | sed 's/^/   /' || true

kill -TERM "$sink"
status=0
wait "$sink" || status=$?
sink=
echo "== receiver's verdict"
sed 's/^/   /' "$work/verdict"
exit $status
