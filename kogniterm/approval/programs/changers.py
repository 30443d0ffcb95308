"""Programs that change something, and what sort of change it is.

Same line format as `readers`. Bases here: `write` (operands are files created or changed),
`ask KIND` (needs approval; KIND names the reason in `plain.ASK_REASONS`), `danger KIND`, and
handlers for those whose operands matter.
"""

TABLE = """
mkdir: write; value m mode
touch: write; value d t date time; read r reference
tee: tee
truncate: empty; value s size; read r reference
cp: copy; value S suffix backup context sparse; folder t target-directory
mv: move; value S suffix backup; folder t target-directory
install: copy; value m o g mode owner group; folder t target-directory; ask strip-program=
ln: link; value S suffix; folder t target-directory
rm: rm
rmdir unlink: rmdir
shred: shred
split: split; value a b C l n t suffix-length bytes line-bytes lines number separator
    additional-suffix; run filter
csplit: split; value f prefix b n suffix-format digits
mktemp: mktemp; folder p tmpdir
mkfifo: write; value m mode
mknod: mknod
chmod: chmod
chown chgrp: chown
chattr setfacl setcap setfattr: ask permissions
dd: dd
patch: ask edit
dos2unix unix2dos: write
ruff: ruff
black isort autopep8 yapf: format
gofmt goimports: gofmt
rustfmt shfmt clang-format: format
zip: zip
ar cpio pax: ask archive
rsync: rsync
rename prename: ask edit
ed ex vi vim nvim nano emacs pico joe micro code subl: ask editor
mkfs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs mke2fs mkswap
    mkdosfs: danger disk
fdisk sfdisk cfdisk gdisk sgdisk parted partprobe wipefs blkdiscard hdparm badblocks: disk
lvremove vgremove pvremove lvcreate vgcreate pvcreate lvreduce lvresize mdadm cryptsetup zfs zpool
    btrfs dmsetup losetup: disk
tune2fs resize2fs e2fsck fsck xfs_repair debugfs: disk
umount swapoff fstrim: ask system
shutdown reboot halt poweroff init telinit kexec killall5: danger power
insmod rmmod modprobe depmod: danger kernel
iptables ip6tables nft ufw firewall-cmd ebtables ipset: firewall
tc ethtool iw iwconfig nmcli rfkill brctl ovs-vsctl wg wg-quick: ask system
useradd userdel usermod groupadd groupdel groupmod adduser deluser addgroup delgroup passwd
    chpasswd chsh chfn vipw visudo gpasswd newusers: danger accounts
setenforce semanage restorecon aa-disable aa-teardown auditctl: danger protection
update-alternatives alternatives update-rc.d chkconfig grub-install update-grub
    grub-mkconfig efibootmgr update-initramfs dracut: ask system
at batch anacron atrm: ask later
systemd-run: ask stays
hwclock ntpdate chronyc: ask system
apt-get aptitude yum dnf zypper pacman apk emerge port xbps-install nix-env nix guix opkg: packages
npm pnpm yarn npx pnpx bunx uvx pipx deno bun uv poetry pdm hatch rye: ask code
bundle rake rails composer mix stack cabal dotnet gradle mvn ant sbt lein: ask code
make gmake ninja cmake meson bazel just task scons tox nox pytest jest mocha vitest tsc webpack
    vite eslint prettier rollup: ask code
gcc g++ cc c++ clang clang++ ld as rustc javac ghc tcc nasm gnatmake: ask compile
python python2 python3 pypy pypy3 ipython jupyter perl ruby node nodejs php lua luajit tclsh wish
    expect Rscript R julia java scala kotlin groovy swift ghci erl elixir iex guile racket sbcl
    clisp octave gnuplot pwsh osascript m4 dc: interpreter
irb pry gdb lldb jshell: ask code
nc ncat netcat socat telnet: netcat
ftp sftp tftp lftp scp rcp rlogin rsh mosh autossh sshfs ssh-copy-id ssh-keyscan: transfer
ssh-keygen ssh-add ssh-agent: ask keys
dig nslookup host whois ping ping6 traceroute traceroute6 tracepath mtr nmap masscan arping fping
    hping3 iperf iperf3 speedtest speedtest-cli tcpdump tshark wireshark rdate: network
aria2c httpie http https xh lynx w3m links elinks axel youtube-dl yt-dlp rclone s3cmd gsutil
    restic borg duplicity: network
aws gcloud az gh glab hub heroku doctl flyctl fly vercel netlify terraform tofu pulumi ansible
    ansible-playbook helm oc eksctl minikube kind k9s argocd flux vault consul nomad packer
    vagrant: cloud
docker-compose podman-compose: ask containers
psql mysql mysqldump mariadb sqlite3 mongo mongosh redis-cli cqlsh influx clickhouse-client
    pg_dump pg_restore createdb dropdb mysqladmin: database
mail mailx sendmail mutt msmtp swaks: ask mail
crictl ctr nsenter unshare chroot systemd-nspawn lxc lxc-attach machinectl firejail bwrap: ask
    namespace
script asciinema: ask records
xdg-open open gio gnome-open sensible-browser x-www-browser firefox chromium google-chrome: ask
    opens
notify-send wall write mesg xmessage zenity: ask notifies
xclip xsel pbcopy pbpaste wl-copy wl-paste: ask clipboard
gsettings dconf defaults xfconf-query xrandr setxkbmap xmodmap loadkeys localedef: ask system
pass secret-tool keyring security keepassxc-cli op bw lpass age sops gopass: secrets
logger: ask system
renice schedtool cpulimit prlimit: ask process
perf bpftrace bcc-tools sysdig ftrace trace-cmd: ask code
ssh-keysign newgrp sg setpriv capsh: sudo
"""
