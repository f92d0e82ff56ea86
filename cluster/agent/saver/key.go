package saver

import (
	"context"

	"github.com/phos-gpu/phos/daemon/api"
)

// ExportKey returns the key by which a phosd seals images. Only root may ask.
func ExportKey(ctx context.Context, socket string) ([]byte, error) {
	reply, err := askKeys(ctx, socket, &api.KeysRequest{Act: &api.KeysRequest_Export{Export: true}})
	return reply.GetKey(), err
}

// ImportKey lets a phosd restore images that another one has sealed. An earlier key of this name is
// replaced.
func ImportKey(ctx context.Context, socket, name string, key []byte) error {
	_, err := askKeys(ctx, socket, &api.KeysRequest{
		Act: &api.KeysRequest_Import{Import: &api.KeyImport{Name: name, Key: key}},
	})
	return err
}

// askKeys makes a request about keys.
func askKeys(ctx context.Context, socket string, request *api.KeysRequest) (*api.KeysReply, error) {
	client, err := api.Dial(socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	reply, err := client.Daemon.Keys(ctx, request)
	return reply, api.FromStatus(err)
}
