package worker

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/phos-gpu/phos/hijack/wire"
)

const cookieTime = 500 * time.Millisecond

// followCookie ends the session when the program has replaced itself by exec: the process lives, but the word in its
// memory is gone. A program that is not to be looked into is found out when it starts its next session.
func (w *Worker) followCookie(hello wire.Hello) {
	memory := processMemory{program: w.program.Identity}
	var seen [8]byte
	for {
		select {
		case <-w.over:
			return
		case <-time.After(cookieTime):
		}
		_, err := memory.ReadAt(seen[:], int64(hello.CookieAddress))
		if errors.Is(err, ErrRefused) {
			return
		}
		if err != nil || binary.LittleEndian.Uint64(seen[:]) != hello.Cookie {
			w.end("the program was replaced by exec")
			return
		}
	}
}
