package imagecmd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/daemon/api"
)

// ErrNoKey is returned for input that is not a key.
var ErrNoKey = errors.New("not a key: expected 64 hexadecimal digits, as \"image key export\" writes them")

// maxKeyText is an upper bound for the text of a key.
const maxKeyText = 1 << 10

// ExportKey prints the key of this machine.
func ExportKey(ctx context.Context, out Output) error {
	reply, err := sendKeysRequest(ctx, &api.KeysRequest{Act: &api.KeysRequest_Export{Export: true}})
	if err == nil {
		_, err = fmt.Fprintln(out.Out, hex.EncodeToString(reply.GetKey()))
	}
	return err
}

// ImportKey reads the key of another machine and stores it under a name.
func ImportKey(ctx context.Context, out Output, from io.Reader, name string) error {
	text, err := io.ReadAll(io.LimitReader(from, maxKeyText))
	if err != nil {
		return err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) == 0 {
		return ErrNoKey
	}
	_, err = sendKeysRequest(ctx,
		&api.KeysRequest{Act: &api.KeysRequest_Import{Import: &api.KeyImport{Name: name, Key: key}}})
	if err == nil {
		_, err = fmt.Fprintf(out.Out, "images of %s can be restored here by their owners\n", name)
	}
	return err
}

// RemoveKey removes an imported key.
func RemoveKey(ctx context.Context, out Output, name string) error {
	_, err := sendKeysRequest(ctx, &api.KeysRequest{Act: &api.KeysRequest_Remove{Remove: name}})
	if err == nil {
		_, err = fmt.Fprintf(out.Out, "images of %s can be restored here by root only\n", name)
	}
	return err
}

// ListKeys prints the names of the imported keys.
func ListKeys(ctx context.Context, out Output) error {
	reply, err := sendKeysRequest(ctx, &api.KeysRequest{})
	if err != nil {
		return err
	}
	if out.JSON {
		return out.json(append([]string{}, reply.GetNames()...))
	}
	if len(reply.GetNames()) == 0 {
		_, err := fmt.Fprintln(out.Err, "no imported keys: only images of this machine may be restored by their owners")
		return err
	}
	for _, name := range reply.GetNames() {
		if _, err := fmt.Fprintln(out.Out, humanize.Printable(name)); err != nil {
			return err
		}
	}
	return nil
}

// sendKeysRequest asks phosd to import, remove or list keys.
func sendKeysRequest(ctx context.Context, request *api.KeysRequest) (*api.KeysReply, error) {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	reply, err := client.Daemon.Keys(ctx, request)
	if err != nil {
		return nil, api.FromStatus(err)
	}
	return reply, nil
}
