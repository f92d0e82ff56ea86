package messages

import (
	"context"
	"errors"
	"io"

	"github.com/phos-gpu/phos/cluster/api"
)

// partBytes is how many bytes of code go into one message.
const partBytes = 256 << 10

// SendCode sends packed code part by part. FindCode before it has found the leader.
func SendCode(ctx context.Context, to api.LaunchesClient, ref *api.CodeRef, packed []byte) error {
	parts, err := to.SendCode(ctx)
	if err != nil {
		return err
	}
	for from := 0; from < len(packed) && err == nil; from += partBytes {
		part := &api.CodePart{Data: packed[from:min(from+partBytes, len(packed))]}
		if from == 0 {
			part.Ref = ref
		}
		err = parts.Send(part)
	}
	if err != nil && !errors.Is(err, io.EOF) { // of io.EOF, the answer says why
		return err
	}
	_, err = parts.CloseAndRecv()
	return err
}
