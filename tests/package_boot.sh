#!/bin/bash
# Run by systemd in the system that tests/package_test.sh --boot made: the services of the package, under
# the systemd that they are for. Its last line is "passed" only where all is right.
set -euo pipefail
fail() { systemctl status --no-pager 'quire*' || true; echo "package_boot: $1"; exit 1; }
body='{"prompt": "The capital of France is", "max_tokens": 2, "temperature": 0}'

# Another port than the default one: the network is that of the machine which runs the test.
sed -i 's/^QUIRE_ARGS=.*/QUIRE_ARGS=--host 127.0.0.1 --port 18423/' /etc/quire/quire.env
systemctl start quire
# Ready as soon as it has started: nothing waits or tries again here.
[[ $(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:18423/ready) == 200 ]] || fail "not ready"
answer=$(curl -s http://127.0.0.1:18423/v1/completions -H 'Content-Type: application/json' -d "$body")
[[ $answer == *Paris* ]] || fail "the answer is $answer"
status=/proc/$(systemctl show -p MainPID --value quire)/status
grep -Eqx 'CapEff:\s0+' "$status" || fail "it has capabilities"
grep -Eqx 'NoNewPrivs:\s1' "$status" || fail "it may get new privileges"
grep -Eqx 'Seccomp:\s2' "$status" || fail "it may call anything"

echo 'QUIRE_ARGS=--simulate-step-ms 5' >/etc/quire/two.env
systemctl start quire@two
ready=(curl -s -o /dev/null -w '%{http_code}' --unix-socket /run/quire/two/quire.sock)
ready+=(http://localhost/ready)
[[ $(runuser -u quire -- "${ready[@]}") == 200 ]] || fail "the socket does not answer"
[[ $(runuser -u nobody -- "${ready[@]}") == 000 ]] || fail "the socket is open to all"
[[ -e /var/lib/quire/two/batches.sqlite3 ]] || fail "its state is elsewhere"

# One that hangs is started again.
restarts() { systemctl show -p NRestarts --value quire; }
[[ $(restarts) == 0 ]] || fail "it was restarted before"
kill -STOP "$(systemctl show -p MainPID --value quire)"
for _ in $(seq 180); do
  [[ $(restarts) == 0 ]] || break
  sleep 1
done
[[ $(restarts) == 1 ]] || fail "it hangs and is not restarted"

systemctl stop quire quire@two
[[ $(systemctl show -p Result --value quire@two) == success ]] || fail "it does not stop well"

# Removing the package ends what runs and leaves nothing enabled.
systemctl enable -q --now quire
systemctl is-active -q quire || fail "it does not start again"
rm /etc/quire/two.env
dpkg --remove quire >/dev/null
! systemctl is-active -q quire || fail "it runs without its package"
[[ ! -e /etc/systemd/system/multi-user.target.wants/quire.service ]] || fail "it stayed enabled"
echo passed
