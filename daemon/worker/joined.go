package worker

import (
	"strconv"

	"github.com/phos-gpu/phos/daemon/worker/capture"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/hijack/wire"
)

// joined is a session that its program uses.
type joined struct {
	link    *link
	ring    *wire.Ring
	session *session.Session
	capture *capture.Capture
	arena   *capture.Host
	cookie  cookie
}

// join makes a session whose program is there one that can be saved.
func (w *Worker) join(live *link, made *session.Session, from cookie) *joined {
	j := &joined{link: live, ring: live.file.Ring(), session: made, cookie: from}
	j.arena = &capture.Host{Address: live.arena.Address(), Memory: live.arena.Bytes()}
	j.capture = capture.New(func() []capture.Source { return sources(made, j.arena) })
	return j
}

// sources are the memories of a session as they are now.
func sources(made *session.Session, arena *capture.Host) []capture.Source {
	var list []capture.Source
	for _, memory := range made.Memories() {
		list = append(list, capture.Source{Name: gpuEntry(memory.Ordinal), Memory: memory.Memory, Ranges: memory.Mapped})
	}
	return append(list, capture.Source{Name: arenaEntry, Memory: arena, Ranges: made.ArenaRanges()})
}

// gpuEntry is the name of the entry with the memory of a GPU.
func gpuEntry(ordinal int) string { return "gpu" + strconv.Itoa(ordinal) }

func (j *joined) gate() *gate { return &gate{live: j.link, ring: j.ring, session: j.session} }
