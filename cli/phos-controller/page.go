package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/phos-gpu/phos/cluster/control/serve"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/local"
	"github.com/phos-gpu/phos/cluster/members"
	"github.com/phos-gpu/phos/cluster/web"
)

// listenWeb opens the port of the page for browsers. Launches do not depend on the page, so a port
// that is taken is only a warning.
func (k *controller) listenWeb() error {
	if k.config.Web.Listen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", k.config.Web.Listen)
	if err != nil {
		k.log.Warn("page not served; web.listen in the configuration is its address", "error", err)
		return nil
	}
	address, err := advertised(listener.Addr())
	if err != nil {
		return err
	}
	k.settings.Page = "http://" + address
	if local.CheckListener(listener) != nil {
		k.settings.Page = "https://" + address
	}
	k.pageListener = listener
	return nil
}

// serveWeb serves the page. On loopback it is in clear, and the kernel says which user has
// connected; elsewhere it has the certificate of this controller, and users have tokens.
func (k *controller) serveWeb(holder *channel.Holder, services serve.Services, fail context.CancelCauseFunc) error {
	if k.pageListener == nil {
		return nil
	}
	var settings *tls.Config
	var names []string
	if local.CheckListener(k.pageListener) != nil {
		settings = channel.Server(holder, time.Now)
		own, err := k.names()
		if err != nil {
			return err
		}
		names = own.DNS
		for _, ip := range own.IPs {
			names = append(names, ip.String())
		}
	}
	k.page = web.NewServer(web.Parts{
		Launches: services.Launches, Cluster: services.Cluster, Translate: serve.Translate, Log: k.log,
		Callers: members.Browsers{Members: k.members, Rules: local.Rules{AllowRoot: true}},
	}, settings, names)
	go func() {
		if err := k.page.Serve(k.pageListener); err != nil {
			fail(fmt.Errorf("serve the page at %s: %w", k.settings.Page, err))
		}
	}()
	return nil
}
