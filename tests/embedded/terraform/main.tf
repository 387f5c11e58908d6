terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.0"
    }
  }
}

provider "aws" {
  skip_metadata_api_check = true
  default_tags {
    tags = { project = "promises" }
  }
}

variable "public_key" { type = string }

variable "data" {
  type    = object({ type = string, size = number, iops = number })
  default = { type = "gp3", size = 10, iops = 3000 }
}

variable "role" {
  type    = string
  default = "db"
}

data "aws_ami" "debian" {
  most_recent = true
  owners      = ["136693071363"]
  filter {
    name   = "name"
    values = ["debian-12-amd64-*"]
  }
  filter {
    name   = "virtualization-type"
    values = ["hvm"]
  }
}

data "aws_availability_zones" "here" {
  state = "available"
}

resource "aws_vpc" "main" {
  cidr_block           = "10.20.0.0/16"
  enable_dns_hostnames = true
  tags                 = { Name = "main" }
}

resource "aws_subnet" "a" {
  vpc_id                  = aws_vpc.main.id
  cidr_block              = "10.20.1.0/24"
  availability_zone       = data.aws_availability_zones.here.names[1]
  map_public_ip_on_launch = true
}

resource "aws_internet_gateway" "main" {
  vpc_id = aws_vpc.main.id
}

resource "aws_route_table" "main" {
  vpc_id = aws_vpc.main.id
  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.main.id
  }
}

resource "aws_route_table_association" "a" {
  subnet_id      = aws_subnet.a.id
  route_table_id = aws_route_table.main.id
}

resource "aws_security_group" "ssh" {
  name        = "ssh"
  description = "SSH from here"
  vpc_id      = aws_vpc.main.id
  ingress {
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = ["198.18.0.0/15"]
  }
  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_vpc_security_group_ingress_rule" "iperf3" {
  security_group_id            = aws_security_group.other.id
  referenced_security_group_id = aws_security_group.ssh.id
  ip_protocol                  = "tcp"
  from_port                    = 5201
  to_port                      = 5210
}

resource "aws_security_group" "other" {
  name   = "other"
  vpc_id = aws_vpc.main.id
}

resource "aws_key_pair" "login" {
  key_name   = "login"
  public_key = var.public_key
}

resource "aws_placement_group" "near" {
  name     = "near"
  strategy = "cluster"
}

resource "aws_instance" "db" {
  ami                    = data.aws_ami.debian.id
  instance_type          = "m5.large"
  subnet_id              = aws_subnet.a.id
  vpc_security_group_ids = [aws_security_group.ssh.id, aws_security_group.other.id]
  key_name               = aws_key_pair.login.key_name
  placement_group        = aws_placement_group.near.name
  private_ip             = "10.20.1.10"
  ebs_optimized          = true
  user_data              = "#!/bin/sh\ntouch /var/lib/made-by-terraform\n"
  root_block_device {
    volume_size = 12
    volume_type = "gp3"
  }
  metadata_options {
    http_tokens = "required"
  }
  tags = { Name = "db", role = var.role }
}

resource "aws_ebs_volume" "data" {
  availability_zone = aws_instance.db.availability_zone
  type              = var.data.type
  size              = var.data.size
  iops              = var.data.iops
  tags              = { Name = "data" }
}

resource "aws_volume_attachment" "data" {
  device_name = "/dev/sdf"
  volume_id   = aws_ebs_volume.data.id
  instance_id = aws_instance.db.id
}

resource "aws_ebs_snapshot" "data" {
  volume_id  = aws_ebs_volume.data.id
  depends_on = [aws_volume_attachment.data]
}

resource "aws_eip" "db" {
  domain     = "vpc"
  instance   = aws_instance.db.id
  depends_on = [aws_internet_gateway.main]
}

output "address" { value = aws_eip.db.public_ip }
output "db_id" { value = aws_instance.db.id }
output "volume_id" { value = aws_ebs_volume.data.id }
output "vpc_id" { value = aws_vpc.main.id }
