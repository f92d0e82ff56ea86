package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry returns a registry with what every daemon has: its version, and what Go and the
// kernel know of its process.
func newRegistry(component, version string) *prometheus.Registry {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "phos_build_info", Help: "1, with the version of the daemon that runs.",
		ConstLabels: prometheus.Labels{"component": component, "version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// describe returns the description of a number that is collected at each scrape.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// output takes numbers of one scrape.
type output chan<- prometheus.Metric

// gauge yields a number that goes up and down.
func (o output) gauge(what *prometheus.Desc, value float64, labels ...string) {
	o <- prometheus.MustNewConstMetric(what, prometheus.GaugeValue, value, labels...)
}

// truth returns 1 for true.
func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
