package main

import (
	"log/slog"
	"net"
	"os"
)

// supervisorVariable names the notification socket of the supervisor: systemd, for a unit with
// Type=notify.
const supervisorVariable = "NOTIFY_SOCKET"

// supervisor sends systemd's notifications; conn is nil without a supervisor.
type supervisor struct{ conn net.Conn }

// findSupervisor removes the socket's name from the environment, because workers must not notify
// for phosd. If the socket cannot be reached, phosd serves without it.
func findSupervisor(log *slog.Logger) *supervisor {
	path := os.Getenv(supervisorVariable)
	_ = os.Unsetenv(supervisorVariable) // fails only for invalid names
	if path == "" {
		return &supervisor{}
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		log.Warn("cannot notify supervisor (sd_notify)", "variable", supervisorVariable, "error", err)
		return &supervisor{}
	}
	return &supervisor{conn: conn}
}

// ready reports that programs can start.
func (s *supervisor) ready(socket string) { s.notify("READY=1\nSTATUS=serving programs at " + socket) }

// stopping reports that phosd ends, which takes time if programs are saved first.
func (s *supervisor) stopping() { s.notify("STOPPING=1\nSTATUS=stopping; programs keep running") }

func (s *supervisor) notify(message string) {
	if s.conn != nil {
		// An error is ignored: the supervisor has ended.
		_, _ = s.conn.Write([]byte(message))
	}
}
