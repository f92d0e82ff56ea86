package messages

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/phos-gpu/phos/cluster/api"
)

// partBytes is how many bytes of code go into one message.
const partBytes = 256 << 10

// SendCode sends packed code unless the receiver has it, and reports whether it did. If the leader
// is lost on the way, it begins again with the next one, once.
func SendCode(
	ctx context.Context, to api.LaunchesClient, ref *api.CodeRef, packed io.ReaderAt,
) (sent bool, err error) {
	for again := false; ; again = true {
		// It also finds the leader, for the stream after it.
		found, err := to.FindCode(ctx, ref)
		if err != nil {
			return false, fmt.Errorf("ask for code: %w", api.FromStatus(err))
		}
		if found.GetFound() {
			return again, nil
		}
		err = upload(ctx, to, ref, io.NewSectionReader(packed, 0, int64(ref.GetBytes())))
		if err == nil {
			return true, nil
		}
		if again || !errors.Is(err, api.ErrUnavailable) {
			return false, fmt.Errorf("send code: %w", err)
		}
	}
}

// upload sends packed code in one stream.
func upload(ctx context.Context, to api.LaunchesClient, ref *api.CodeRef, packed io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a stream that is not sent in full is no code
	parts, err := to.SendCode(ctx)
	if err != nil {
		return api.FromStatus(err)
	}
	err = parts.Send(&api.CodePart{Ref: ref})
	if err == nil {
		err = SendParts(packed, parts.Send)
	}
	if err != nil && !errors.Is(err, io.EOF) { // of io.EOF, the answer says why
		return api.FromStatus(err)
	}
	_, err = parts.CloseAndRecv()
	return api.FromStatus(err)
}

// SendParts reads packed code, and sends it part by part.
func SendParts(packed io.Reader, send func(*api.CodePart) error) error {
	buffer := make([]byte, partBytes)
	for {
		n, err := io.ReadFull(packed, buffer)
		if n > 0 {
			if err := send(&api.CodePart{Data: buffer[:n]}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read code: %w", err)
		}
	}
}
