package worker

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/phos-gpu/phos/hijack/wire"
)

const cookieTime = 500 * time.Millisecond

// cookie is a word in the program's memory that exec takes away. Without an address there is none.
type cookie struct{ address, value uint64 }

func cookieOf(hello wire.Hello) cookie {
	if hello.Flags&wire.HelloCopyByShim != 0 {
		return cookie{}
	}
	return cookie{hello.CookieAddress, hello.Cookie}
}

// followCookie ends the session when the program has replaced itself by exec: the process lives,
// but the word in its memory is gone. A program that is not to be looked into is found out when it
// starts its next session.
func (w *Worker) followCookie(j *joined) {
	if j.cookie.address == 0 {
		return
	}
	var seen [8]byte
	for {
		select {
		case <-w.over:
			return
		case <-time.After(cookieTime):
		}
		_, err := j.link.memory.ReadAt(seen[:], int64(j.cookie.address))
		if errors.Is(err, ErrRefused) {
			// Right after a restore the program has not said yet that this process may look.
			if j.link.file.Word32(wire.WordGate).Load()&wire.GateRestored != 0 {
				continue
			}
			return
		}
		if err != nil || binary.LittleEndian.Uint64(seen[:]) != j.cookie.value {
			w.end("the program was replaced by exec")
			return
		}
	}
}
