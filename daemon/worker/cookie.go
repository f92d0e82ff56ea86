package worker

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/phos-gpu/phos/hijack/wire"
)

const cookieTime = 500 * time.Millisecond

// cookie is a word in the program's memory that does not survive exec. Without an address there is
// no cookie.
type cookie struct{ address, value uint64 }

// cookieOf returns the program's cookie; none if the worker may not read the program's memory.
func cookieOf(hello wire.Hello) cookie {
	if hello.Flags&wire.HelloCopyByShim != 0 {
		return cookie{}
	}
	return cookie{hello.CookieAddress, hello.Cookie}
}

// watchCookie ends the session after the program calls exec: the process lives, but the word in its
// memory is gone. If the worker may not read the program's memory, exec is detected when the
// program starts its next session.
func (w *Worker) watchCookie(active *activeSession) {
	if active.cookie.address == 0 {
		return
	}
	var seen [8]byte
	for {
		select {
		case <-w.over:
			return
		case <-time.After(cookieTime):
		}
		_, err := active.link.memory.ReadAt(seen[:], int64(active.cookie.address))
		if errors.Is(err, ErrRefused) {
			// Right after a restore the program has not yet allowed this process to read its memory
			// (PR_SET_PTRACER).
			if active.link.file.Word32(wire.WordGate).Load()&wire.GateRestored != 0 {
				continue
			}
			return
		}
		if err != nil || binary.LittleEndian.Uint64(seen[:]) != active.cookie.value {
			w.end("the program was replaced by exec")
			return
		}
	}
}
