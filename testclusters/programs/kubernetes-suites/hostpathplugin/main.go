// Command hostpathplugin stands for the CSI driver of that name, of whose image Kubernetes' tests of devices need one
// thing: a program in a pod to which the kubelet connects by a socket, and the test by a port.
package main

import (
	"flag"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

type closer interface {
	CloseWrite() error
}

func main() {
	socket := flag.String("endpoint", "", "the path of a socket, with or without unix://")
	port := flag.String("proxy-endpoint", "", "an address that begins with tcp://")
	flag.Int("v", 0, "taken and not used")
	flag.Parse()

	inside := listen("unix", strings.TrimPrefix(*socket, "unix://"))
	outside := listen("tcp", strings.TrimPrefix(*port, "tcp://"))
	go func() {
		for {
			// The one outside is taken second: the test tries to connect all the time, and the kernel lets it.
			first, second := accept(inside), accept(outside)
			go join(first, second)
		}
	}()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	<-ended
}

func listen(network, address string) net.Listener {
	listener, err := net.Listen(network, address)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func accept(listener net.Listener) net.Conn {
	connection, err := listener.Accept()
	if err != nil {
		log.Fatal(err)
	}
	return connection
}

// join carries bytes both ways until both sides have ended.
func join(first, second net.Conn) {
	var both sync.WaitGroup
	carry := func(from, to net.Conn) {
		defer both.Done()
		if _, err := io.Copy(to, from); err != nil {
			log.Print(err)
		}
		if half, ok := to.(closer); ok {
			_ = half.CloseWrite() // the other side is gone already, then
		}
	}
	both.Add(2)
	go carry(first, second)
	go carry(second, first)
	both.Wait()
	first.Close()
	second.Close()
}
