// What runs in the pods of a test node: an application, a client, and a stand-in for the proxy. One static program, so
// that an image needs nothing else.
//
//	pod pause        does nothing, and reaps orphans as the first process of a pod has to
//	pod serve PORT   answers each HTTP request with the marks that proxies have left on it, a line each
//	pod get URL      prints the answer to one request
//	pod proxy        forwards what the redirect rules send to it, marking it; listens where the injected environment says
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// mark is the header in which a proxy says that a request has passed it: its port, its pod, and the port asked for.
const mark = "Passed"

func main() {
	arguments := append(os.Args[1:], "", "")
	var err error
	switch arguments[0] {
	case "pause":
		pause()
	case "serve":
		err = serve(":" + arguments[1])
	case "get":
		err = get(arguments[1])
	case "proxy", "":
		err = proxy()
	default:
		err = fmt.Errorf("%q is none of pause, serve, get, proxy", arguments[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); child <= 0 || err != nil {
				break
			}
		}
	}
}

func serve(address string) error {
	endOnSignal()
	return http.ListenAndServe(address, http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		fmt.Fprintln(response, strings.Join(request.Header.Values(mark), "\n"))
	}))
}

func get(url string) error {
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

// endOnSignal ends the process at once: the first process of a container ignores what it has no handler for.
func endOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		os.Exit(0)
	}()
}
