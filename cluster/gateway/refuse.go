package gateway

import (
	"io"
	"net/http"
	"time"

	"github.com/phos-gpu/phos/cluster/archive"
)

// What is read of a request that has been refused. It is as much as any request may have.
const (
	unreadBytes = archive.MaxZip
	unreadTime  = 10 * time.Second
)

// refuse answers a request with an error, even if it was not read to its end. Many clients look
// for an answer only after they have sent all, and a connection that is closed earlier is a broken
// pipe for them. So what comes is read and dropped first, up to a limit.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	// A client that asked with Expect waits for the answer, and a read would tell it to send.
	if r.Header.Get("Expect") == "" {
		// It fails only on a connection of another kind.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
		_, _ = io.CopyN(io.Discard, r.Body, unreadBytes) // the answer is the same if it ends early
	}
	writeFault(w, err)
}
