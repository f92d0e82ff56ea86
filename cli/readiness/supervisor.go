package readiness

import (
	"log/slog"
	"net"
	"os"
)

// supervisorVariable names the sd_notify socket: systemd sets it for a unit with Type=notify.
const supervisorVariable = "NOTIFY_SOCKET"

// Supervisor is the connection to systemd; conn is nil without one.
type Supervisor struct{ conn net.Conn }

// FindSupervisor connects to the supervisor and removes the variable, so that children cannot
// notify it. The daemon serves even if the supervisor cannot be reached.
func FindSupervisor(log *slog.Logger) *Supervisor {
	path := os.Getenv(supervisorVariable)
	_ = os.Unsetenv(supervisorVariable) // fails only for invalid names
	if path == "" {
		return &Supervisor{}
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		log.Warn("cannot notify supervisor (sd_notify)", "variable", supervisorVariable, "error", err)
		return &Supervisor{}
	}
	return &Supervisor{conn: conn}
}

// Ready reports that the daemon serves; status is a line for people.
func (s *Supervisor) Ready(status string) { s.notify("READY=1\nSTATUS=" + status) }

// Stopping reports that the daemon is stopping.
func (s *Supervisor) Stopping(status string) { s.notify("STOPPING=1\nSTATUS=" + status) }

// notify sends a state in sd_notify's format. Without a supervisor it has no effect.
func (s *Supervisor) notify(state string) {
	if s.conn != nil {
		// If the supervisor has gone away, there is nothing to do.
		_, _ = s.conn.Write([]byte(state))
	}
}
