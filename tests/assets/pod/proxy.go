package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"syscall"
)

// soOriginalDst is SO_ORIGINAL_DST of linux/netfilter_ipv4.h.
const soOriginalDst = 80

type originalKey struct{}

// proxy stands in for Linkerd's: inbound and outbound listener, and the admin port that the injected probes ask.
func proxy() error {
	endOnSignal()
	ended := make(chan error)
	for _, name := range []string{"LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR"} {
		addresses := os.Getenv(name + "S")
		if addresses == "" {
			addresses = os.Getenv(name)
		}
		for _, address := range strings.Split(addresses, ",") {
			go func() { ended <- fmt.Errorf("%s %q: %w", name, address, forward(address)) }()
		}
	}
	admin := os.Getenv("LINKERD2_PROXY_ADMIN_LISTEN_ADDR")
	go func() { ended <- fmt.Errorf("admin %q: %w", admin, http.ListenAndServe(admin, ready{})) }()
	return <-ended
}

type ready struct{}

func (ready) ServeHTTP(response http.ResponseWriter, _ *http.Request) { fmt.Fprintln(response, "ok") }

// forward marks each request and sends it on to where its connection was bound for.
func forward(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	pod, err := os.Hostname()
	if err != nil {
		return err
	}
	direct := &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true},
		Rewrite: func(request *httputil.ProxyRequest) {
			bound, _ := request.In.Context().Value(originalKey{}).(string)
			_, asked, _ := net.SplitHostPort(bound)
			request.Out.URL.Scheme, request.Out.URL.Host, request.Out.Host = "http", bound, request.In.Host
			request.Out.Header.Add(mark, fmt.Sprintf("%s %s for %s", port, pod, asked))
		},
	}
	server := http.Server{
		Addr:    address,
		Handler: direct,
		ConnContext: func(ctx context.Context, connection net.Conn) context.Context {
			bound, err := original(connection)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			return context.WithValue(ctx, originalKey{}, bound)
		},
	}
	return server.ListenAndServe()
}

// original tells where a redirected IPv4 connection was bound for.
func original(connection net.Conn) (string, error) {
	plain, ok := connection.(*net.TCPConn)
	if !ok {
		return "", errors.New("no TCP connection")
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return "", err
	}
	var found *syscall.IPv6Mreq
	var failed error
	// A sockaddr_in has 16 bytes, as the first field of this structure has; package syscall offers no plainer call.
	err = raw.Control(func(fd uintptr) {
		found, failed = syscall.GetsockoptIPv6Mreq(int(fd), syscall.IPPROTO_IP, soOriginalDst)
	})
	if err = errors.Join(err, failed); err != nil {
		return "", fmt.Errorf("SO_ORIGINAL_DST: %w", err)
	}
	address := found.Multiaddr
	return fmt.Sprintf("%s:%d", net.IP(address[4:8]), binary.BigEndian.Uint16(address[2:4])), nil
}
