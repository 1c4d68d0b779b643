package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

const (
	etcdName = "etcd"
	// etcdSocket is relative to the folder, the working directory of all processes. The kernel allows only about a hundred bytes
	// for a socket path.
	etcdSocket = "etcd.sock"
)

// startEtcd starts a single etcd member in this process. It listens only on a Unix socket in the cluster's own folder. So no other
// user of the machine can bypass the API server and reach the data.
func startEtcd(ctx context.Context, f *folder, noFsync bool) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = f.path("etcd")
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Host: etcdSocket}}
	// There are no peers. The advertised addresses are etcd's defaults, because nobody asks for them.
	cfg.ListenPeerUrls = nil
	cfg.EnableGRPCGateway = false

	cfg.Logger, cfg.LogLevel = "zap", "warn"
	cfg.LogOutputs = []string{f.log(etcdName)}

	// A lone member elects itself after it has waited for others, up to ElectionMs. Short ticks make that wait short; with ticks of 20 ms, etcd
	// took as much processor time as the API server while nothing happens.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	// With zero, etcd would log every request as slow.
	cfg.WarningUnaryRequestDuration = time.Second
	cfg.Name = clusterName
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = noFsync
	// The member allocates two log segments in advance. The default of 64 MB is for larger installations.
	wal.SegmentSizeBytes = 8 << 20
	// Room for tests that store many objects; the default is 2 GiB.
	cfg.QuotaBackendBytes = 8 << 30

	if err := os.Truncate(f.log(etcdName), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", cfg.Dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		etcd.Close()
		return nil, fmt.Errorf("start etcd in %s: %w", cfg.Dir, err)
	case <-ctx.Done():
		etcd.Close()
		return nil, fmt.Errorf("start etcd in %s: %w", cfg.Dir, context.Cause(ctx))
	}
}
