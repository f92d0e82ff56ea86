package images

import (
	"errors"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/cluster/agent/saver"
)

// Arguments with which the agent's program calls SendMain and ReceiveMain.
const (
	SendRole    = "send-image"
	ReceiveRole = "receive-image"
)

// Loan is an image that another node may have, and with whose rights it is read.
type Loan struct {
	As    saver.Owner
	Order SendOrder
}

// SendOrder says what to send.
type SendOrder struct {
	// Dir is the image directory; empty: the receiver has the image.
	Dir        string `json:"dir,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	// Work are working directories.
	Work []string `json:"work"`
}

// ReceiveOrder says where to put it.
type ReceiveOrder struct {
	// Dir is the image directory, Others are those of images that may have the same contents.
	Dir        string   `json:"dir"`
	Generation uint64   `json:"generation"`
	Others     []string `json:"others,omitempty"`
	// Work are the working directories, in the order of SendOrder. They are empty.
	Work []string `json:"work"`
	// Keep is how many generations stay; 0: all.
	Keep int `json:"keep,omitempty"`
}

// offer is the first line that a receiver writes. The hashes that it has follow.
type offer struct {
	// Complete means that it has the generation, and wants the working directories alone.
	Complete bool `json:"complete"`
}

// maxHashes limits what a receiver says that it has: 2 TiB in whole chunks.
const (
	maxHashes    = 1 << 20
	maxHashBytes = maxHashes * int64(len(image.Hash{}))
)

// exitChanged is the status of a sender that has found errChanged.
const exitChanged = 3

// endMark follows the archive, so that one that is cut short is not taken for a whole one.
const endMark = "phos: end of the directories\n"

var (
	// ErrCutShort means that the other node has not sent all.
	ErrCutShort = errors.New("the other node has not sent all of it")
	// ErrUnreachable means that the other node has not answered for long, or not sent anything.
	ErrUnreachable = errors.New("it cannot be reached")
	// errChanged means that a file has changed while it was read.
	errChanged = errors.New("a file has changed while it was read")
)
