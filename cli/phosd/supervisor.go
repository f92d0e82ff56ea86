package main

import (
	"log/slog"
	"net"
	"os"
)

// supervisorVariable names the sd_notify socket: systemd sets it for a unit with Type=notify.
const supervisorVariable = "NOTIFY_SOCKET"

// supervisor is the connection to systemd; conn is nil without one.
type supervisor struct{ conn net.Conn }

// findSupervisor connects to the supervisor and removes the variable, so that workers cannot notify
// it. phosd serves even if the supervisor cannot be reached.
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

// ready reports that phosd serves programs.
func (s *supervisor) ready(socket string) { s.notify("READY=1\nSTATUS=serving programs at " + socket) }

// stopping reports that phosd is stopping, which takes a while if programs are saved first.
func (s *supervisor) stopping() { s.notify("STOPPING=1\nSTATUS=stopping; programs go on") }

// notify sends a state in sd_notify's format. Without a supervisor it has no effect.
func (s *supervisor) notify(state string) {
	if s.conn != nil {
		// If the supervisor has gone away, there is nothing to do.
		_, _ = s.conn.Write([]byte(state))
	}
}
