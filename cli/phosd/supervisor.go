package main

import (
	"log/slog"
	"net"
	"os"
)

// supervisorVariable names the socket of whoever has started phosd and wants to hear how it is:
// systemd, of a unit with Type=notify.
const supervisorVariable = "NOTIFY_SOCKET"

// supervisor is told in systemd's words; a nil connection is one that there is not.
type supervisor struct{ conn net.Conn }

// findSupervisor takes the socket's name out of the environment: a worker must not speak for phosd.
// One that cannot be reached is no reason not to serve.
func findSupervisor(log *slog.Logger) *supervisor {
	path := os.Getenv(supervisorVariable)
	_ = os.Unsetenv(supervisorVariable) // it fails for names that are none
	if path == "" {
		return &supervisor{}
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		log.Warn("nobody hears when phosd is ready", "variable", supervisorVariable, "error", err)
		return &supervisor{}
	}
	return &supervisor{conn: conn}
}

// ready says that programs may come.
func (s *supervisor) ready(socket string) { s.notify("READY=1\nSTATUS=serves programs at " + socket) }

// stopping says that phosd ends, which takes a while where programs are saved first.
func (s *supervisor) stopping() { s.notify("STOPPING=1\nSTATUS=ends; programs run on") }

func (s *supervisor) notify(words string) {
	if s.conn != nil {
		// A supervisor that has gone away misses nothing that it could act on.
		_, _ = s.conn.Write([]byte(words))
	}
}
