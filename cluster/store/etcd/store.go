package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/phos-gpu/phos/cluster/store"
)

const (
	// pingTime and pingTimeout end connections that carry a watch and no longer answer.
	pingTime, pingTimeout = 10 * time.Second, 3 * time.Second
	// retryTime is the time between two attempts at something that waits for the store.
	retryTime = 200 * time.Millisecond
)

// Store is the store in one etcd. All methods may be called at the same time.
type Store struct {
	config Config
	client *clientv3.Client
}

var _ store.Store = (*Store)(nil)

// Open returns a Store. It does not wait for a connection: etcd may start later.
func Open(config Config) (*Store, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            config.Endpoints,
		TLS:                  config.TLS,
		DialKeepAliveTime:    pingTime,
		DialKeepAliveTimeout: pingTimeout,
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(connectParams),
			grpc.WithChainUnaryInterceptor(noteCause()),
		},
		Logger: zap.NewNop(), // each error reaches the caller or Config.Log
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return &Store{config: config, client: client}, nil
}

// connectParams make a client find an etcd that was restarted within a second.
var connectParams = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 3 * time.Second,
}

// Close ends the connection, all calls, and the renewal of leaderships.
func (s *Store) Close() error {
	_ = s.client.Close() // the error is that of the context which it cancels
	return nil
}

// Get returns an object, or store.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Object{}, err
	}
	var got *clientv3.GetResponse
	err := s.call(ctx, func(ctx context.Context) (err error) {
		got, err = s.client.Get(ctx, s.path(key))
		return err
	})
	if err == nil && len(got.Kvs) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Object{}, fmt.Errorf("read %s: %w", key, err)
	}
	kv := got.Kvs[0]
	return store.Object{Key: key, Value: kv.Value, Revision: store.Revision(kv.ModRevision)}, nil
}

// path is the key in etcd of an object, or the beginning of such keys.
func (s *Store) path(key string) string { return s.config.Prefix + "/objects/" + key }

// key is the key of an object by its key in etcd.
func (s *Store) key(path []byte) string { return strings.TrimPrefix(string(path), s.path("")) }

// leaderPath is the key in etcd of the leadership.
func (s *Store) leaderPath() string { return s.config.Prefix + "/leader" }
