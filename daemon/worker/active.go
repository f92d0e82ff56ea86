package worker

import (
	"strconv"

	"github.com/phos-gpu/phos/daemon/worker/capture"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/hijack/wire"
)

// activeSession is a session with its program attached.
type activeSession struct {
	link    *link
	ring    *wire.Ring
	session *session.Session
	capture *capture.Capture
	arena   *capture.Host
	cookie  cookie
}

// activate returns the active session for a session and its program. It can be checkpointed.
func (w *Worker) activate(live *link, made *session.Session, from cookie) *activeSession {
	active := &activeSession{link: live, ring: live.file.Ring(), session: made, cookie: from}
	active.arena = &capture.Host{Address: live.arena.Address(), Memory: live.arena.Bytes()}
	active.capture = capture.New(func() []capture.Source { return sources(made, active.arena) })
	return active
}

// sources returns the current memories of a session, as sources for capture.
func sources(made *session.Session, arena *capture.Host) []capture.Source {
	var list []capture.Source
	for _, memory := range made.Memories() {
		list = append(list, capture.Source{Name: gpuEntry(memory.Ordinal), Memory: memory.Memory, Ranges: memory.Mapped})
	}
	return append(list, capture.Source{Name: arenaEntry, Memory: arena, Ranges: made.ArenaRanges()})
}

// gpuEntry returns the name of the image entry with a GPU's memory.
func gpuEntry(ordinal int) string { return "gpu" + strconv.Itoa(ordinal) }

func (active *activeSession) gate() *gate {
	return &gate{live: active.link, ring: active.ring, session: active.session}
}
