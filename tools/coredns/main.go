// Command coredns is CoreDNS with only the plugins that the local cluster's Corefile uses.
//
// The stock program links every plugin (cloud providers, Vault, tracing back ends), which
// triples its build time and pulls in newer Kubernetes libraries than the cluster's own.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// The order is the order in which a query passes the plugins, whatever the Corefile says.
	dnsserver.Directives = []string{
		"bind",
		"health",
		"ready",
		"errors",
		"cache",
		"loadbalance",
		"template",
		"kubernetes",
	}
	coremain.Run()
}
